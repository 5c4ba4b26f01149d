"""Constants of prefill attention kernels, fitted per engine to all GPUs, and how they carry to others."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hwspaces
from jaxroof.efficiency.prefill import PrefillKernel, prefill_timing, published
from jaxroof.efficiency.timing import SHORT, Spread
from jaxroof.hardware import Hardware
from jaxroof.op import Op
from sweeps.ask.axes import leaf, replaced
from sweeps.measure.kernel_data.attention import latent_context_groups, prefill_groups
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import Errors, errors
from tests.evidence.learned_kernels.result import (
    ARCHITECTURES,
    KernelFit,
    all_rows,
    deviation,
    errors_by_length,
    sources,
)
from tests.evidence.least_squares import fitted
from tests.evidence.parameters import Parameter

ROWS = 400
"""Rows per device that are fitted: enough for constants to move by less than their priors' spread between samples."""

LATENT_SHARE = 0.2
"""Part of them that are expanded latent attention, where an engine was measured with it."""

ROW_SPREAD = 0.2
"""Standard deviation of the log ratio of one row to a right model: repeats and versions of kernels."""

WIDEST = 256.0
"""Elements of the widest head that is fitted; wider ones run on kernels of their own."""

FALLBACKS = ("triton", "fidecode", "fa4")
"""Parts of names of kernels that are not fitted: what an engine falls back to where its main kernel does not run,
and prompts of one token that a decode kernel runs."""

NARROW_WIDTHS = (128.0, 192.0)
"""Head widths of fitted TRT-LLM rows at 8 bits without asynchronous cores: at others it runs slower than at 16."""

FA2 = "FlashAttention-2, arXiv:2307.08691: 50 to 73 % of A100's peak, softmax included"
FA3 = "FlashAttention-3, arXiv:2407.08608: 75 % of H100's peak, softmax included"
OURS = "ours: order of magnitude"

QUALITY = "matrix"
"""Path of a factor on both shares of the matrix peak: an engine that is slow on one architecture is so on others."""

BLACKWELL = "asynchronous.tensor_memory."
"""Beginning of the paths of ratios of constants where accumulators have a memory of their own to those of Hopper."""

SAME = "ours: kernels for tensor memory are close to those of Hopper"

CONVERTED = "ours: a pass that converts new keys and values"

PARAMETERS = (
    Parameter(QUALITY, 1.0, 0.07, 0.5, 1.3, "ours: half of an engine's deviation carries to the other loop"),
    Parameter("synchronous.matrix", 0.75, 0.07, 0.3, 0.97, FA2),
    Parameter("asynchronous.matrix", 0.85, 0.04, 0.4, 0.97, FA3),
    Parameter("synchronous.serial", 0.5, 0.2, 0.01, 1.0, OURS),
    Parameter("asynchronous.serial", 0.15, 0.2, 0.01, 1.0, FA3),
    Parameter("synchronous.packing", 0.3, 0.3, 0.001, 1.0, OURS),
    Parameter("asynchronous.packing", 0.9, 0.1, 0.001, 1.0, OURS),
    Parameter("synchronous.padding", 64.0, 0.15, 8.0, 256.0, "half a tile of 128 rows"),
    Parameter("asynchronous.padding", 64.0, 0.15, 8.0, 400.0, "half a tile of 128 rows"),
    Parameter("synchronous.tile_cycles", 4000.0, 0.2, 200.0, 30000.0, OURS),
    Parameter("asynchronous.tile_cycles", 6000.0, 0.2, 200.0, 30000.0, OURS),
    Parameter("synchronous.low_cache", 1.05, 0.1, 0.4, 3.0, OURS),
    Parameter("asynchronous.low_cache", 1.05, 0.1, 0.4, 3.0, OURS),
    Parameter("synchronous.low_write", 0.1, 0.7, 0.01, 10.0, CONVERTED),
    Parameter("asynchronous.low_write", 0.3, 0.7, 0.01, 10.0, CONVERTED),
    Parameter(f"{BLACKWELL}low_write", 1.0, 0.7, 0.1, 10.0, SAME),
    Parameter(f"{BLACKWELL}matrix", 1.0, 0.1, 0.5, 1.3, SAME),
    Parameter(f"{BLACKWELL}serial", 1.0, 0.2, 0.1, 4.0, SAME),
    Parameter(f"{BLACKWELL}packing", 1.0, 0.1, 0.5, 1.0, SAME),
    Parameter(f"{BLACKWELL}padding", 1.0, 0.2, 0.25, 4.0, SAME),
    Parameter(f"{BLACKWELL}tile_cycles", 1.0, 0.3, 0.1, 4.0, SAME),
    Parameter(f"{BLACKWELL}low_cache", 1.0, 0.2, 0.3, 4.0, SAME),
    Parameter("wide", 0.1, 0.3, 0.001, 2.0, OURS),
    Parameter("vector", 6.0, 0.1, 1.0, 60.0, "operations of online softmax"),
    Parameter("tail", 0.8, 0.1, 0.2, 2.0, OURS),
    Parameter("bandwidth", 0.85, 0.02, 0.4, 0.93, "large copies: 85 to 92 % of HBM"),
    Parameter("resident", 0.7, 0.1, 0.2, 1.5, OURS),
    Parameter("warm", 0.25, 0.3, 0.05, 1.0, OURS),
    Parameter("memory_serial", 0.1, 0.2, 0.01, 1.0, OURS),
    Parameter("cache_write", 2.0, 0.15, 0.01, 10.0, "keys and values are read and written once"),
    Parameter("query_copy", 0.1, 0.5, 0.001, 10.0, OURS),
    Parameter("launch_cycles", 18000.0, 0.15, 3000.0, 60000.0, "attention in a CUDA graph: 5 to 16 us"),
    Parameter("low_launch", 0.1, 0.3, 0.001, 3.0, OURS),
)
"""What moves for kernels of 16 bits."""

PRIORS = {
    "trtllm": {
        # TensorRT-LLM documentation, "FP8 context FMHA": with an 8-bit cache Hopper's products are of 8 bits too.
        "asynchronous.low_cache": 0.75,
        "query_copy": 1.0,  # its pre-processing kernel rotates queries and writes them again
        "synchronous.packing": 0.03,
        "asynchronous.packing": 0.2,
    },
    "vllm": {"asynchronous.low_cache": 1.25},
    "sglang": {"synchronous.packing": 0.9},  # FlashInfer packs query heads
}
"""Priors that follow from what an engine runs, by path."""

NARROW = (QUALITY, "synchronous.matrix", "asynchronous.matrix", "synchronous.tile_cycles", "asynchronous.tile_cycles")
NARROW += (f"{BLACKWELL}matrix", f"{BLACKWELL}tile_cycles")
NARROW += ("launch_cycles", "cache_write", "query_copy")
"""What moves again for kernels of 8 bits, from the values for 16 bits."""

LATENT = ("asynchronous.matrix", "asynchronous.tile_cycles", "asynchronous.low_cache", "launch_cycles", "wide")
LATENT += ("low_launch", "cache_write", "query_copy")
LATENT += (f"{BLACKWELL}matrix", f"{BLACKWELL}tile_cycles", f"{BLACKWELL}low_cache")
"""What moves again for absorbed latent attention."""


@dataclasses.dataclass(frozen=True)
class Rows:
    """Measured rows of one device with the ops that they ran, stacked by structure."""

    device: str
    op: Op  # leaves of shape [rows]
    seconds: np.ndarray  # shape [rows]


def fit_prefill(folder: Path, engine: str) -> list[KernelFit]:
    """Constants of an engine's kernels of 16 bits, of 8 bits and of absorbed latent attention, where it has rows.

    Args:
      folder: of the kernel tables.
      engine: "trtllm", "vllm" or "sglang".
    """
    wide, narrow, latent = _classes(folder, engine)
    priors = PRIORS.get(engine, {})
    moved = tuple(p.moved(priors.get(p.path, p.prior), p.fact) for p in PARAMETERS)
    kernels = dict.fromkeys((None, *ARCHITECTURES.values()), published())
    first, kernels = _fit("prefill_attention.wide", engine, wide, kernels, moved)
    fits = [first]
    for path, groups, paths in (("narrow", narrow, NARROW), ("latent", latent, LATENT)):
        if groups:
            again = tuple(dataclasses.replace(p, spread=max(p.spread, 0.1)) for p in moved if p.path in paths)
            fits.append(_fit(f"prefill_attention.{path}", engine, groups, kernels, again)[0])
    return fits


def _classes(folder: Path, engine: str) -> tuple[list[KernelGroup], list[KernelGroup], list[KernelGroup]]:
    """Rows of kernels of 16 bits, of 8 bits, and of absorbed latent attention."""
    wide, narrow, latent = [], [], []
    for group in all_rows(prefill_groups, folder):
        if group.engine != engine or group.device not in ARCHITECTURES or _falls_back(group):
            continue
        width = group.columns["head_dim"]
        if group.precision.startswith("fp8"):
            fitted_widths = width <= WIDEST
            if not hwspaces.hardware(group.device).hardware.cores.asynchronous:
                fitted_widths = np.isin(width, NARROW_WIDTHS)
            narrow.append(group.chosen(fitted_widths))
        else:
            wide.append(group.chosen(width <= WIDEST))
    for group in all_rows(latent_context_groups, folder):
        if group.engine != engine or group.device not in ARCHITECTURES or _falls_back(group):
            continue
        absorbed = bool(jax.eval_shape(group.call, _first(group))[0].shape.latent)
        (latent if absorbed else wide).append(group)
    return tuple([group for group in groups if len(group)] for groups in (wide, narrow, latent))


def _falls_back(group: KernelGroup) -> bool:
    return any(name in group.kernel for name in FALLBACKS)


def _first(group: KernelGroup) -> dict[str, Any]:
    return {name: column[0] for name, column in group.columns.items()}


def _fit(
    path: str,
    engine: str,
    groups: Sequence[KernelGroup],
    starts: Mapping[str | None, PrefillKernel],
    parameters: Sequence[Parameter],
) -> tuple[KernelFit, dict[str | None, PrefillKernel]]:
    """Constants and their errors, and the kernels by the architecture that they have not seen (None: all seen).

    `starts` are such kernels too: priors are their values.
    """
    rows = sampled(groups, ROWS)
    architectures = {ARCHITECTURES[each.device] for each in rows}
    kernels = {None: _fitted(rows, starts[None], parameters)}
    for architecture in ARCHITECTURES.values():
        others = [each for each in rows if ARCHITECTURES[each.device] != architecture]
        if architecture not in kernels:
            kernels[architecture] = (
                _fitted(others, starts[architecture], parameters) if others else starts[architecture]
            )
    blind = {each.device: kernels[ARCHITECTURES[each.device]] for each in rows} if len(architectures) > 1 else {}
    by_device = {device: [each for each in rows if each.device == device] for device in sorted(blind)}
    held_out = {device: _both_errors(blind[device], own) for device, own in by_device.items()}
    unseen = [(blind[device], own) for device, own in by_device.items()] or [(kernels[None], rows)]
    measured = np.concatenate([_seconds(own) for _, own in unseen])
    predicted = np.concatenate([predictions(kernel, own) for kernel, own in unseen])
    ratios, long = np.abs(np.log(predicted / measured)), measured >= SHORT
    spread = Spread(short=_deviation(ratios[~long]), long=_deviation(ratios[long]))
    fit = KernelFit(
        path=path,
        kernel=dataclasses.replace(kernels[None], spread=spread),
        engine=engine,
        sources=sources(groups),
        rows=sum(len(each.seconds) for each in rows),
        errors=errors(predictions(kernels[None], rows), _seconds(rows)),
        held_out=held_out,
        blind=blind,
    )
    return fit, kernels


def sampled(groups: Sequence[KernelGroup], per_device: int, seed: int = 0) -> list[Rows]:
    """Rows drawn at random, the same number on every device; latent attention has its own share."""
    random, found = np.random.default_rng(seed), []
    for device in sorted({group.device for group in groups}):
        mine = [group for group in groups if group.device == device]
        kinds = [[g for g in mine if g.family.startswith("latent")], [g for g in mine if g.family[0] != "l"]]
        shares = (LATENT_SHARE, 1.0 - LATENT_SHARE) if all(kinds) else (1.0, 1.0)
        stacks: dict[Any, list[tuple[Op, np.ndarray]]] = {}
        for kind, share in zip(kinds, shares, strict=True):
            total = sum(map(len, kind))
            for group in kind:
                n = min(len(group), max(1, round(per_device * share * len(group) / total)))
                chosen = group.chosen(np.sort(random.choice(len(group), n, replace=False)))
                op = jax.vmap(lambda row, call=group.call: call(row)[0])(chosen.columns)
                stacks.setdefault(jax.tree.structure(op), []).append((op, chosen.seconds))
        for parts in stacks.values():
            op = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *[op for op, _ in parts])
            found.append(Rows(device, op, np.concatenate([seconds for _, seconds in parts])))
    return found


def with_constants(kernel: PrefillKernel, values: Mapping[str, Any]) -> PrefillKernel:
    """`kernel` with the constants at the given paths replaced; `QUALITY` multiplies both shares of the matrix peak, and
    what begins with `BLACKWELL` is a ratio to the constant of asynchronous cores.
    """
    ratios = _ratios(kernel) | {
        path.removeprefix(BLACKWELL): value for path, value in values.items() if path.startswith(BLACKWELL)
    }
    values = {path: value for path, value in values.items() if not path.startswith(BLACKWELL)}
    quality = values.pop(QUALITY, 1.0)
    for path, value in values.items():
        kernel = replaced(kernel, path, value * quality if path.endswith(".matrix") else value)
    loop = kernel.asynchronous
    own = {name: ratio * getattr(loop, name) for name, ratio in ratios.items()}
    return dataclasses.replace(kernel, asynchronous=dataclasses.replace(loop, tensor_memory=own or None))


def _ratios(kernel: PrefillKernel) -> dict[str, Any]:
    """Constants where accumulators have a memory of their own, as ratios to those of other asynchronous cores."""
    loop = kernel.asynchronous
    return {name: value / getattr(loop, name) for name, value in (loop.tensor_memory or {}).items()}


def _fitted(rows: Sequence[Rows], start: PrefillKernel, parameters: Sequence[Parameter]) -> PrefillKernel:
    """`start` with the constants that fit `rows`; priors are its own values where another fit has moved them."""
    measured = _seconds(rows)
    moved = [p if start == published() or p.path == QUALITY else _from(start, p) for p in parameters]

    def times(values: dict[str, Any]) -> jax.Array:
        kernel = with_constants(start, values)
        return jnp.concatenate([_times(kernel, each.op, _hardware(each.device)) for each in rows])

    return with_constants(start, fitted(times, measured, np.full(len(measured), ROW_SPREAD), moved))


def _from(start: PrefillKernel, parameter: Parameter) -> Parameter:
    ratio = parameter.path.startswith(BLACKWELL)
    value = _ratios(start)[parameter.path.removeprefix(BLACKWELL)] if ratio else leaf(start, parameter.path)
    return parameter.moved(float(value), "as fitted to kernels of 16 bits")


def predictions(kernel: PrefillKernel, rows: Sequence[Rows]) -> np.ndarray:
    """Time in s of every row, shape [rows]."""
    return np.concatenate([np.asarray(_times(kernel, each.op, _hardware(each.device))) for each in rows])


@jax.jit
def _times(kernel: PrefillKernel, op: Op, hardware: Hardware) -> jax.Array:
    return jax.vmap(lambda one: prefill_timing(kernel, one, hardware).total)(op)


def _hardware(device: str) -> Hardware:
    return hwspaces.hardware(device).hardware


def _seconds(rows: Sequence[Rows]) -> np.ndarray:
    return np.concatenate([each.seconds for each in rows])


def _both_errors(kernel: PrefillKernel, rows: Sequence[Rows]) -> tuple[Errors, Errors]:
    return errors_by_length(predictions(kernel, rows), _seconds(rows))


def _deviation(ratios: np.ndarray) -> float:
    return deviation(ratios) if len(ratios) else 0.0
