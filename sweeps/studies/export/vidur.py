"""Time of one layer of a step by the part of the layer that Vidur knows it by, over columns of steps."""

import csv
import dataclasses
import io
import itertools
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jaxroof.deployment import stage_devices
from jaxroof.hardware import Hardware
from jaxroof.jobs import Scenario
from jaxroof.jobs.step import StepWork, step_batch
from jaxroof.layers.collective import collective
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Block, Model
from jaxroof.numerics.arrays import eager
from jaxroof.numerics.struct import given
from jaxroof.op import AnyOp, Collective
from jaxroof.roofline import op_time
from jaxroof.step.forward import as_run, step_ops
from jaxroof.step.step import host_time, in_step
from jaxroof.version import VERSION
from sweeps.ask.cases import Case
from sweeps.run.evaluate import Function, evaluate
from sweeps.run.points import Points
from sweeps.studies.export.folder import written as files_of_folder
from sweeps.studies.export.runs import decoder_ops

CORES = {"decode": "attn_decode", "prefill": "attn_prefill"}
"""Phase -> the part that its kernels are: what runs on tokens of one phase alone is attention, or belongs to it."""


def layer_times(case: Case, work: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Time in s of the parts of a mean layer at every step, shapes (n,). Sums of tensor-parallel devices are left out.

    Args:
      case: any step of the deployment.
      work: numbers of `StepWork` by name, shapes (n,).
    """

    def times(scenario: Scenario) -> dict[str, Any]:
        ops, layers = decoder_ops(scenario), layer_count(scenario.model)
        seconds: dict[str, Any] = {}
        for name, part in parts_of(ops).items():
            # Time of the op in all layers, divided by their number: that of a mean layer.
            time = ops[name].count / layers * op_time(ops[name], scenario.hardware, scenario.efficiency)
            seconds[part] = seconds.get(part, 0.0) + time
        return seconds

    return _columns(case, work, times)


def _columns(case: Case, work: Mapping[str, np.ndarray], times: Function) -> Any:
    first = {name: float(column[0]) for name, column in work.items()}
    number = len(next(iter(work.values())))
    settings = {f"workload.{name}": np.asarray(column, float) for name, column in work.items()}
    base = dataclasses.replace(case.scenario, workload=StepWork(**first))
    ((_, columns),) = evaluate(times, base, [Points(np.arange(number), [settings])])
    return columns


def parts_of(ops: Mapping[str, AnyOp]) -> dict[str, str]:
    """The part that every op of a layer belongs to, by name; without sums of tensor-parallel devices."""
    parts, layer, after = {}, None, False
    for name, op in ops.items():
        # In a new layer, no activation was met yet.
        if op.layer != layer:
            layer, after = op.layer, False
        plain = name.removeprefix(op.layer)
        if isinstance(op, Collective) and op.role == "reduction":
            continue
        # Ops of one phase alone are the attention of that phase.
        if op.phase in CORES:
            parts[name] = CORES[op.phase]
        elif op.role == "norm":
            parts[name] = "post_attention_layernorm" if "feedforward" in plain else "input_layernorm"
        elif op.role in ("mixer", "attention", "indexer", "cross_attention", "context"):
            parts[name] = _of_mixer(plain)
        else:
            # Ops of a feedforward block: up to the activation they project up, after it down.
            after = after or "activation" in plain
            parts[name] = "mlp_act" if "activation" in plain else "mlp_down_proj" if after else "mlp_up_proj"
    return parts


def _of_mixer(name: str) -> str:
    if "rope" in name:
        return "attn_rope"
    return "attn_post_proj" if name.startswith("o_proj") else "attn_pre_proj"


def other_times(case: Case, sequences: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Time in s of decode steps outside of the layers, by their sequences, shapes (n,): of the host, and of kernels."""

    def times(scenario: Scenario) -> list[Any]:
        batch, inside = step_batch(scenario.workload, scenario.model), decoder_ops(scenario)
        ops = step_ops(as_run(scenario.model, scenario.hardware), scenario.deployment, batch)
        efficiency = in_step(scenario.efficiency, batch, scenario.deployment)
        kernels = sum(
            op.count * op_time(op, scenario.hardware, efficiency) for name, op in ops.items() if name not in inside
        )
        return [host_time(scenario.hardware, batch, scenario.deployment, scenario.efficiency), kernels]

    host, kernels = _columns(case, {"decode": sequences, "context": np.ones(sequences.shape)}, times)
    return host, kernels


def message_times(case: Case, op: Collective) -> np.ndarray:
    """Time in s of a collective whose message is a column, shape (n,)."""
    with eager():
        return np.asarray(op_time(op, case.scenario.hardware, case.scenario.efficiency))


# Tables of a model on an accelerator as the simulator Vidur reads profiles: one layer's kernels, messages, the host.


BLOCK = 16
"""Tokens per block of the KV cache: what Vidur's schedulers take by default."""

ROUNDED = 8
"""Tokens that Vidur rounds the tokens of a step up to."""

GRAIN = 64
"""Tokens of a cache that Vidur rounds contexts to by default."""

PARTS = 8
"""Sizes per doubling at which attention is priced: the trees that Vidur fits are constant between them."""

ELEMENT = 2.0
"""B per element of messages, by which Vidur turns sizes into tokens."""

COMPUTE = (
    *("attn_pre_proj", "attn_rope", "attn_post_proj", "mlp_up_proj", "mlp_act", "mlp_down_proj"),
    *("input_layernorm", "post_attention_layernorm", "add"),
)
"""Operations of `mlp.csv`, by tokens. The sum with the residual is in the norms, so that `add` is 0."""

ATTENTION = ("attn_prefill", "attn_decode", "attn_kv_cache_save")
"""Operations of `attention.csv`; the cache is written by the kernel of `attn_rope`, so that its own time is 0."""

HOST = ("schedule", "sampler_e2e", "prepare_inputs_e2e", "process_model_outputs")
"""Operations of `cpu_overheads.csv`, which has further `ray_comm_time_mean`."""

STATISTICS = ("min", "max", "mean", "median", "std")

MILLISECONDS = 1e3

Columns = dict[str, Any]
"""Columns of a table by name: an array each, or what stands in every row."""


def written(
    folder: str | os.PathLike[str],
    cases: Iterable[Case],
    device: str,
    model: str,
    network: str,
    most_tokens: int,
    most_sequences: int,
    force: bool = False,
) -> list[pathlib.Path]:
    """Write the tables into a folder, with names as in Vidur's `data/profiling`; none appears before all are done.

    Args:
      cases: prefills of one model on one device, one per tensor-parallel degree.
      device, model, network: Vidur's names, which are folders.
      most_tokens: of one step and one request; most_sequences: of a decode step.
      force: replace files of these names that jaxroof did not write.

    Raises:
      ValueError: one line, for a model that Vidur has no layer for, or a folder or file that must not or cannot be
        written.
    """
    per_degree = list(cases)
    _require_known(per_degree[0].model.model, per_degree[0].model.name)
    place, link = f"compute/{device}/{model}", f"network/{network}"
    tables = {
        f"{place}/mlp.csv": [_compute(case, most_tokens) for case in per_degree],
        f"{place}/attention.csv": [
            part for case in per_degree for part in _attention(case, most_tokens, most_sequences)
        ],
        f"cpu_overhead/{network}/{model}/cpu_overheads.csv": [
            _host(case, model, most_sequences) for case in per_degree
        ],
        f"{link}/all_reduce.csv": [_reduces(case, most_tokens) for case in per_degree if _degree(case) > 1],
        f"{link}/send_recv.csv": _sends(per_degree[0], most_tokens),
    }
    contents = {name: [_text(parts).encode()] for name, parts in tables.items() if parts}
    return files_of_folder(folder, contents, ("profile",), "profile of this model", force)


def _text(parts: list[Columns]) -> str:
    """Rows of all parts, under the names of the columns, which are the same in every part."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow([*parts[0], "jaxroof_version"])
    for part in parts:
        # A value that is the same in all rows is repeated.
        columns = (each.tolist() if isinstance(each, np.ndarray) else itertools.repeat(each) for each in part.values())
        table.writerows(zip(*columns, itertools.repeat(VERSION), strict=False))  # as many as the arrays are long
    return out.getvalue()


def _statistics(names: Iterable[str], times: Mapping[str, np.ndarray]) -> Columns:
    """Statistics in ms of operations that always take the same time; one that is not among `times` takes none."""
    return {
        f"time_stats.{name}.{what}": 0.0 if what == "std" else MILLISECONDS * times.get(name, 0.0)
        for name in names
        for what in STATISTICS
    }


def _require_known(model: Model, name: str) -> None:
    """ValueError for layers that have no place in Vidur's tables."""
    if model.encoder is not None or any(block.cross is not None for block in model.blocks):
        raise ValueError(f"{name} has an encoder, which Vidur has no tables for: give a decoder of text")
    if not model.generates:
        raise ValueError(f"{name} generates no text, which Vidur simulates")


def _widest(model: Model) -> Block:
    """The block with the most layers among those that attend."""
    # Models with blocks that do not attend are described by those that do.
    blocks = [block for block in model.blocks if block.attention is not None] or list(model.blocks)
    return max(blocks, key=lambda block: float(block.count))


def _sizes(model: Model) -> Columns:
    """What Vidur tells models apart by."""
    block = _widest(model)
    # The feedforward part of that block, else of the first block that has one.
    part = next((each.feedforward for each in (block, *model.blocks) if each.feedforward is not None), None)
    heads = round(float(given(block.attention, "attention in the model").heads))
    return {
        "n_head": heads,
        "n_kv_head": round(float(getattr(block.attention, "kv_heads", heads))),
        "n_embd": round(float(model.hidden)),
        "n_expanded_embd": 0 if part is None else round(float(part.intermediate)),
        "vocab_size": round(float(model.vocabulary)),
        "use_gated_mlp": part is None or float(part.up_projections) > 1.0,
    }


def _degree(case: Case) -> int:
    return round(float(stage_devices(case.scenario.deployment)))


def token_counts(most: int) -> list[int]:
    """Tokens of a step at which kernels are priced: what Vidur rounds them to up to 4096, beyond in 64 per doubling."""
    counts, at = {1, 2, 4, most}, ROUNDED
    while at < most:
        counts.add(at)
        at += ROUNDED * max(1, at // 4096 * 8)
    return sorted(counts)


def _octaves(first: int, most: int, step: int = 1) -> list[int]:
    """Numbers from `first` to `most`, `PARTS` per doubling and multiples of `step`."""
    numbers, at = {first, most}, float(first)
    while at < most:
        numbers.add(step * round(at / step))
        at *= 2.0 ** (1.0 / PARTS)
    return sorted(number for number in numbers if number <= most)


def _compute(case: Case, most: int) -> Columns:
    """Kernels by the tokens of a step."""
    counts = np.array(token_counts(most))
    columns = {"num_tokens": counts, "num_tensor_parallel_workers": _degree(case)}
    return _sizes(case.model.model) | columns | _statistics(COMPUTE, layer_times(case, {"prefill": counts}))


def _attention(case: Case, most: int, sequences: int) -> list[Columns]:
    """Attention of one prompt's tokens after cached ones, and of sequences that decode."""
    sizes, tables = _sizes(case.model.model), []
    cached = _octaves(GRAIN, most, GRAIN)
    chunks = [(chunk, past) for chunk in _octaves(16, most) for past in (0, *cached) if chunk + past <= most]
    batches = [(batch, past) for batch in _octaves(1, sequences) for past in (1, *cached)]
    (chunk, before), (batch, context) = np.array(chunks).T, np.array(batches).T
    prefill = {"prefill": chunk, "past": before}
    decode = {"decode": batch, "context": context + 1}  # the new token's too
    # Each row of the table is one prompt, or a batch of sequences that decode one token each.
    for is_prefill, work, number, new, past in ((True, prefill, 1, chunk, before), (False, decode, batch, 0, context)):
        tables.append(
            {
                "n_embd": sizes["n_embd"],
                "n_q_head": sizes["n_head"],
                "n_kv_head": sizes["n_kv_head"],
                "block_size": BLOCK,
                "num_tensor_parallel_workers": _degree(case),
                "max_model_len": most,
                "batch_size": number,
                "prefill_chunk_size": new,
                "kv_cache_size": past,
                "is_prefill": is_prefill,
                "attention_backend": "jaxroof",
            }
            | _statistics(ATTENTION, layer_times(case, work))
        )
    return tables


def _host(case: Case, model: str, sequences: int) -> Columns:
    """Time outside of layers: of the host, and of the kernels that choose tokens, by sequences."""
    batches = np.array(_octaves(1, sequences))
    host, sampling = other_times(case, batches)
    times = {"schedule": MILLISECONDS * host, "sampler_e2e": MILLISECONDS * sampling}
    return {
        "model_name": model,
        "tensor_parallel_degree": _degree(case),
        "batch_size": batches,
        **{f"{name}_median": times.get(name, 0.0) for name in HOST},
        "ray_comm_time_mean": 0.0,
    }


def _domain(hardware: Hardware) -> int:
    """Devices of a scale-up domain."""
    links = hardware.links.scale_up
    return 1 if links is None else round(float(links.devices))


def _messages(case: Case, most: int, operation: str, workers: int, near: int, stride: float = 1.0) -> Columns:
    """A collective of as many tokens as a step has, where `near` of its devices are in one scale-up domain."""
    # Bytes of the hidden vectors of all tokens of a step.
    sizes = ELEMENT * float(case.model.model.hidden) * np.array(token_counts(most))
    times = message_times(case, collective(operation, sizes, float(workers), 1.0, stride))
    return _statistics([operation], {operation: times}) | {
        "rank": 0,
        "num_workers": workers,
        "size": sizes.astype(int),
        "collective": operation,
        "devices_per_node": near,
        "max_devices_per_node": _domain(case.scenario.hardware),
    }


def _reduces(case: Case, most: int) -> Columns:
    """All-reduces of several devices."""
    return _messages(case, most, "all_reduce", _degree(case), _degree(case))


def _sends(case: Case, most: int) -> list[Columns]:
    """Messages between two devices: of one scale-up domain, and of two where there is a link between them."""
    hardware, tables = case.scenario.hardware, []
    domain = _domain(hardware)
    if domain > 1:
        tables.append(_messages(case, most, "send_recv", 2, near=2))
    # Two devices that are a whole domain apart use the link between domains.
    if hardware.links.scale_out is not None:
        tables.append(_messages(case, most, "send_recv", 2, near=1, stride=float(domain)))
    return tables
