"""Fits of decode attention: which rows, which constants move, and how well they carry to other architectures."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import hwspaces
from jaxroof.efficiency.decode import DecodeKernel, decode_timing, published, published_latent
from jaxroof.efficiency.timing import SHORT, Spread
from jaxroof.hardware import Hardware
from jaxroof.op import Op
from sweeps.measure.kernel_data.attention import decode_groups, latent_decode_groups
from sweeps.measure.kernel_data.group import KernelGroup
from sweeps.measure.validate.relative_errors import errors
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

ROWS = 600
"""Rows per device and width of the cache, drawn at random."""

ROW_SPREAD = 0.15
"""Standard deviation of the log ratio of measured to predicted that a right model would leave."""

INDEPENDENT = 150.0
"""Rows of a table of thousands that err independently of each other; priors weigh against these."""

PORTABLE = ("triton", "vllm_triton_attn", "vllm_flash_attn_fa4")
"""Kernels that run where the main ones do not: other architectures, and heads of 512."""

FIRST_KERNELS = ("vllm_flash_attn_fa2", "vllm_flash_attn")
"""FlashAttention-2 of vLLM: rows of a KV head share no tile under a window; there and without GQA, nothing is split."""

WARPS_OF_XQA = 32.0
"""Query heads per KV head up to which TRT-LLM's grouped kernel runs; more take two to four times as long, on
data-centre Blackwell too."""

COPIED = ("a100_sxm", "sglang")
"""Device and engine of an older version that reaches half of HBM bandwidth: scored, never fitted."""

BLACKWELL_FALLBACKS = ("flashinfer", "torch_flow_flashinfer")
"""Kernels that run on data-centre Blackwell where its own have no variant: heads of 256 and 512."""

OURS = "ours: of the order of published constants"

CORE_CLASSES = ("asynchronous", "tensor_memory")
"""Fields of `DecodeKernel` with the constants of a class of cores, each close to the one before."""

WIDE = (
    Parameter("launch_cycles", 12e3, 0.5, 1e3, 1e5, OURS),
    Parameter("launch_time", 1e-6, 0.5, 1e-7, 1e-5, "a node of a CUDA graph"),
    Parameter("split_cycles", 3e3, 0.5, 1e2, 1e5, OURS),
    Parameter("conversion_cycles", 3e3, 0.7, 1e2, 1e5, OURS),
    Parameter("fill", 1.0, 0.15, 0.5, 4.0, "FlashAttention fills the cores once"),
    Parameter("blocks", 2.5, 0.15, 1.0, 8.0, "two to three blocks of 100 KB and less on a core"),
    Parameter("split_keys", 256.0, 0.5, 16.0, 4096.0, "two tiles of keys"),
    Parameter("block_bytes", 14.0, 0.15, 4.0, 64.0, "16 KB in flight, 1000 cycles of latency"),
    Parameter("block_ramp", 8e5, 0.15, 1e5, 1e7, OURS),
    Parameter("unit_cycles", 4e3, 0.5, 1e2, 1e5, "six dependent loads"),
    Parameter("width_cycles", 10.0, 0.5, 0.1, 1e2, "a tile of 128 keys at 32 B per cycle"),
    Parameter("row_cycles", 0.2, 0.7, 1e-3, 1e1, "query and output at 32 B per cycle"),
    Parameter("first_share", 0.7, 0.4, 0.1, 1.5, "ours: loads of the first units overlap with those of the launch"),
    Parameter("bandwidth", 0.86, 0.02, 0.6, 0.95, "decode attention with 0.5 GB of cache and more: 78 to 87 % of HBM"),
    Parameter("cache_bandwidth", 0.45, 0.25, 0.1, 1.0, OURS),
    Parameter("resident", 0.9, 0.2, 0.3, 1.5, OURS),
    Parameter("matrix", 0.6, 0.1, 0.3, 0.9, "FlashMLA: 660 of 989 TFLOP/s"),
    Parameter("conversions", 1.0, 0.5, 0.1, 1e2, OURS),
)

CHANGED = ("launch_cycles", "conversion_cycles", "split_keys", "unit_cycles", "width_cycles", "first_share")
CHANGED += ("cache_bandwidth",)
"""Constants that engines' kernels for asynchronous cores, and for those with tensor memory, have of their own."""


def _ratio(path: str, prior: float = 1.0, fact: str = "ours: kernels of one engine are alike") -> Parameter:
    return Parameter(path, prior, 0.4, prior / 10.0, prior * 10.0, fact)


def _own(names: Sequence[str], classes: Sequence[str] = CORE_CLASSES) -> tuple[Parameter, ...]:
    """Ratios of constants of every class of cores to those of the class before."""
    return tuple(_ratio(f"{name}.{constant}") for name in classes for constant in names)


TRANSPOSED = 24.0
"""Vector FLOP of Hopper per cached 8-bit element against one of conversion: 8-bit matrix instructions ask for values
that are transposed by threads (arXiv:2407.08608, section 3.3), those of tensor memory do not."""

FLASH_ATTENTION_3 = (
    _ratio("asynchronous.conversions", TRANSPOSED, "values of 8 bits are transposed by threads"),
    _ratio("tensor_memory.conversions", 1.0 / TRANSPOSED, "and are not where accumulators are in tensor memory"),
)
"""What kernels of FlashAttention-3, which vLLM and SGLang run on Hopper, have of their own."""

TRTLLM = (
    *_own(("single_share",)),
    _ratio("asynchronous.narrow_share", 0.6, "ours: it has warp-specialised kernels of 8 bits since Hopper"),
    _ratio("tensor_memory.narrow_share"),
    Parameter("single_share", 0.9, 0.5, 0.1, 2.0, OURS),
    Parameter("narrow_share", 1.0, 0.1, 0.5, 2.0, "ours: kernels of 8 bits are those of 16"),
)
"""What only TRT-LLM has kernels of its own for."""

LATENT = (
    *(p for p in WIDE if p.path not in ("width_cycles", "row_cycles", "unit_cycles", "blocks", "matrix", "split_keys")),
    Parameter("blocks", 1.5, 0.3, 1.0, 4.0, "72 KB for 64 latent vectors"),
    Parameter("split_keys", 128.0, 0.5, 16.0, 4096.0, "two tiles of keys"),
    Parameter("unit_cycles", 5e3, 0.5, 1e2, 1e5, "six dependent loads"),
    Parameter("row_cycles", 0.05, 0.7, 1e-3, 1e1, OURS),
    Parameter("matrix", 0.65, 0.1, 0.3, 0.9, "FlashMLA: 660 of 989 TFLOP/s"),
)

LATENT_ON_BLACKWELL = (
    *_own([name for name in CHANGED if name != "width_cycles"] + ["row_cycles"], ["tensor_memory"]),
    Parameter("tensor_memory.matrix", 1.2, 0.1, 0.7, 1.4, "ours: between products of 16 bits and of 8 bits"),
    Parameter("tensor_memory.bandwidth", 1.0, 0.1, 0.7, 1.1, OURS),
)
"""What kernels over latent vectors have of their own on cores with tensor memory."""


class Sample(NamedTuple):
    """Rows of one class of kernels: shape [rows] each."""

    ops: Op
    hardware: Hardware
    seconds: np.ndarray
    devices: np.ndarray
    fitted: np.ndarray  # False: scored alone


def fit_decode(folder: Path, engine: str) -> list[KernelFit]:
    """Constants of `engine`'s kernels over ordinary caches, and over latent ones where it has dedicated ones."""
    wide = [g for g in _groups(decode_groups, folder, engine) if g.kernel not in PORTABLE]
    moved = (*WIDE, *_own(CHANGED), *(TRTLLM if engine == "trtllm" else FLASH_ATTENTION_3))
    # `slow_bytes` of FlashAttention-3 is named here, as served models move it: `tests.evidence.serving_fit`.
    start = published() if engine == "trtllm" else dataclasses.replace(published(), asynchronous={"slow_bytes": 1.0})
    fits = [_fit("decode_attention.wide", [_main(g) for g in wide], start, moved, _architecture)]
    latent = [g for g in _groups(latent_decode_groups, folder, engine) if _dedicated(g)]
    if latent:
        several = len({ARCHITECTURES[group.device] for group in latent}) > 1
        own = LATENT_ON_BLACKWELL if several else ()
        fold = _architecture if several else str
        fits.append(_fit("decode_attention.latent", latent, published_latent(), (*LATENT, *own), fold))
    return fits


def _groups(load: Callable[[Path], list[KernelGroup]], folder: Path, engine: str) -> list[KernelGroup]:
    return [group for group in all_rows(load, folder) if group.engine == engine and group.device in ARCHITECTURES]


def _architecture(device: str) -> str:
    return ARCHITECTURES[device]


def _dedicated(group: KernelGroup) -> bool:
    """Only Hopper and data-centre Blackwell have kernels for latent vectors; SGLang's on Hopper convert an 8-bit cache
    as a whole beforehand.
    """
    converted = group.engine == "sglang" and "kv fp8" in group.precision
    return ARCHITECTURES[group.device] == "Blackwell" or (ARCHITECTURES[group.device] == "Hopper" and not converted)


def _main(group: KernelGroup) -> KernelGroup:
    """The rows that the engine's main kernel runs as it is meant to."""
    row, narrow = group.columns, "kv fp8" in group.precision
    grouped, architecture = row["n_heads"] / row["n_kv_heads"], ARCHITECTURES[group.device]
    windowed = np.where(row["window"] > 0, np.minimum(row["window"], row["kv_len"]), row["kv_len"])
    units = row["batch"] * row["n_kv_heads"]
    odd = np.zeros(len(group), bool)
    if architecture == "Blackwell":
        odd |= group.kernel in BLACKWELL_FALLBACKS
    if group.engine == "trtllm":
        odd |= grouped > WARPS_OF_XQA
        if narrow and architecture != "Blackwell":
            odd |= grouped == 1  # not the grouped kernel
            odd |= (architecture != "Hopper") & (units < 400) & (windowed >= 128)  # never split on other cores
    if group.kernel in FIRST_KERNELS:
        odd |= (row["window"] > 0) | (grouped == 1)
    if group.kernel == "flashinfer" and not narrow:
        odd |= grouped < 4  # a kernel without matrix units
    return group.chosen(~odd)


def _fit(
    path: str,
    groups: Sequence[KernelGroup],
    start: DecodeKernel,
    moved: Sequence[Parameter],
    fold: Callable[[str], str],
) -> KernelFit:
    groups = [group for group in groups if len(group)]
    sample = _sample(groups)
    kernel = _fitted(sample, sample.fitted, start, moved)
    folds = np.array([fold(device) for device in sample.devices])
    carried, blind = np.zeros(len(folds)), {}
    for name in np.unique(folds):
        out = folds == name
        held = _fitted(sample, sample.fitted & ~out, start, moved)
        carried[out] = _predicted(sample, held)[out]
        blind |= dict.fromkeys(map(str, np.unique(sample.devices[out])), held)
    long = sample.seconds >= SHORT
    off = np.abs(np.log(carried / sample.seconds))
    spread = Spread(short=deviation(off[~long]), long=deviation(off[long]))
    held_out = {}
    for device in np.unique(sample.devices):
        here = sample.devices == device
        held_out[str(device)] = errors_by_length(carried[here], sample.seconds[here])
    used = [group for group in groups if (group.device, group.engine) != COPIED]
    return KernelFit(
        path=path,
        kernel=dataclasses.replace(kernel, spread=spread),
        engine=groups[0].engine,
        sources=sources(used),
        rows=int(np.sum(sample.fitted)),
        errors=errors(_predicted(sample, kernel)[sample.fitted], sample.seconds[sample.fitted]),
        held_out=held_out,
        blind=blind,
    )


def _fitted(sample: Sample, rows: np.ndarray, start: DecodeKernel, moved: Sequence[Parameter]) -> DecodeKernel:
    ops, hardware = jax.tree.map(lambda leaf: leaf[rows], (sample.ops, sample.hardware))

    def predicted(values: dict[str, Any]) -> jax.Array:
        return _totals(with_constants(start, values), ops, hardware)

    width = ROW_SPREAD * max(np.sum(rows) / INDEPENDENT, 1.0) ** 0.5
    values = fitted(predicted, sample.seconds[rows], np.full(np.sum(rows), width), moved)
    return with_constants(start, values)


def with_constants(kernel: DecodeKernel, values: Mapping[str, Any]) -> DecodeKernel:
    """`kernel` with general constants by name, and those of classes of cores by the ratio to the class before:
    "asynchronous.fill" to "fill", "tensor_memory.fill" to "asynchronous.fill".
    """
    general = {name: value for name, value in values.items() if "." not in name}
    kernel, before = dataclasses.replace(kernel, **general), {}
    classes: dict[str, Any] = {}
    for name in CORE_CLASSES:
        ratios = {path.partition(".")[2]: ratio for path, ratio in values.items() if path.startswith(f"{name}.")}
        for constant in {**before, **ratios}:
            before[constant] = before.get(constant, getattr(kernel, constant)) * ratios.get(constant, 1.0)
        classes[name] = {**(getattr(kernel, name) or {}), **before} or None
    return dataclasses.replace(kernel, **classes)


def _predicted(sample: Sample, kernel: DecodeKernel) -> np.ndarray:
    return np.asarray(_totals(kernel, sample.ops, sample.hardware))


@jax.jit
def _totals(kernel: DecodeKernel, ops: Op, hardware: Hardware) -> jax.Array:
    return jax.vmap(lambda op, device: decode_timing(kernel, op, device).total)(ops, hardware)


def _sample(groups: Sequence[KernelGroup]) -> Sample:
    """Rows of all groups as one op and one device per row, so that one function prices them all."""
    draw = np.random.default_rng(0)
    sizes: dict[tuple[str, str], int] = {}
    for group in groups:
        sizes[group.device, group.precision] = sizes.get((group.device, group.precision), 0) + len(group)
    parts = []
    for group in groups:
        share = min(1.0, ROWS / sizes[group.device, group.precision])
        part = group.chosen(np.sort(draw.permutation(len(group))[: max(1, round(share * len(group)))]))
        (ops,) = jax.vmap(part.call)(part.columns)
        where = np.zeros(len(part), int)
        device = jax.tree.map(lambda leaf, rows=where: jnp.asarray(leaf)[None][rows], _slim(part.device))
        fits = np.full(len(part), (part.device, part.engine) != COPIED)
        parts.append(Sample(ops, device, part.seconds, np.full(len(part), part.device, object), fits))
    return Sample(
        *(jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *(part[i] for part in parts)) for i in (0, 1)),
        *(np.concatenate([part[i] for part in parts]) for i in (2, 3, 4)),
    )


def _slim(name: str) -> Hardware:
    """What a kernel sees of a device, alike in structure for all."""
    device = hwspaces.hardware(name).hardware
    unread = dict.fromkeys(("links", "power", "price", "energy", "silicon", "costs", "package", "design"))
    cores = dataclasses.replace(device.cores, matrix_flops_per_clock=None)
    return dataclasses.replace(device, matrix={"bf16": device.matrix["bf16"]}, cores=cores, **unread)
