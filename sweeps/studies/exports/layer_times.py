"""Time of one layer of a step by the part of the layer that Vidur knows it by, over columns of steps."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.jobs.step import StepWork, step_batch
from jaxroof.memory.capacity import layer_count
from jaxroof.numerics.arrays import eager
from jaxroof.op import AnyOp, Collective
from jaxroof.roofline import op_time
from jaxroof.step.forward import as_run, step_ops
from jaxroof.step.step import host_time, in_step
from sweeps.ask.cases import Case
from sweeps.run.evaluate import Function, evaluate
from sweeps.run.points import Points
from sweeps.studies.exports.runs import decoder_ops

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
        found: dict[str, Any] = {}
        for name, part in parts_of(ops).items():
            time = ops[name].count / layers * op_time(ops[name], scenario.hardware, scenario.efficiency)
            found[part] = found.get(part, 0.0) + time
        return found

    return _columns(case, work, times)


def _columns(case: Case, work: Mapping[str, np.ndarray], times: Function) -> Any:
    first = {name: float(column[0]) for name, column in work.items()}
    number = len(next(iter(work.values())))
    settings = {f"workload.{name}": np.asarray(column, float) for name, column in work.items()}
    base = dataclasses.replace(case.scenario, workload=StepWork(**first))
    ((_, found),) = evaluate(times, base, [Points(np.arange(number), [settings])])
    return found


def parts_of(ops: Mapping[str, AnyOp]) -> dict[str, str]:
    """The part that every op of a layer belongs to, by name; without sums of tensor-parallel devices."""
    found, layer, after = {}, None, False
    for name, op in ops.items():
        if op.layer != layer:
            layer, after = op.layer, False
        plain = name.removeprefix(op.layer)
        if isinstance(op, Collective) and op.role == "reduction":
            continue
        if op.phase in CORES:
            found[name] = CORES[op.phase]
        elif op.role == "norm":
            found[name] = "post_attention_layernorm" if "feedforward" in plain else "input_layernorm"
        elif op.role in ("mixer", "attention", "indexer", "cross_attention", "context"):
            found[name] = _of_mixer(plain)
        else:
            after = after or "activation" in plain
            found[name] = "mlp_act" if "activation" in plain else "mlp_down_proj" if after else "mlp_up_proj"
    return found


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
        return [host_time(batch, scenario.deployment, scenario.efficiency), kernels]

    host, kernels = _columns(case, {"decode": sequences, "context": np.ones(sequences.shape)}, times)
    return host, kernels


def message_times(case: Case, op: Collective) -> np.ndarray:
    """Time in s of a collective whose message is a column, shape (n,)."""
    with eager():
        return np.asarray(op_time(op, case.scenario.hardware, case.scenario.efficiency))
