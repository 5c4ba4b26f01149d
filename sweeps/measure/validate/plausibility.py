"""Predicted shares of an accelerator's peaks on large kernels: a check of fitted constants before they are used."""

import dataclasses

import hwspaces
from jaxroof.batch import Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware, matrix_peak, spread_over_mesh
from jaxroof.layers.attention import Attention, decode_attention, prefill_attention
from jaxroof.layers.linear import Matrix, projection
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import jax
from jaxroof.numerics.arrays import jax_numpy as jnp
from jaxroof.numerics.struct import given
from jaxroof.op import AnyOp, Kernel
from jaxroof.roofline import op_time

EDGE = 8192.0
"""m, n and k of a large product."""

FEW_ROWS, WIDE = 8.0, 65536.0
"""m and n of a product that streams its weights, 1 GB of them."""

CONTEXT = 16384.0
SEQUENCES = 64.0
"""Decoding sequences and their context: 4 GB of cache at 8 heads of keys of 128 elements and 16 bits."""

PROMPT = 8192.0


@dataclasses.dataclass(frozen=True)
class PlausibleShares:
    """Of one accelerator, in (0, 1]; None where it has no 16-bit matrix peak."""

    gemm: float  # of the 16-bit matrix peak, a large product
    weights: float  # of HBM bandwidth, a product of few rows
    prefill: float  # of the 16-bit matrix peak, causal attention of a long prompt at head_dim 128
    decode: float  # of HBM bandwidth, decode attention over a large cache


PLAUSIBLE = {"gemm": (0.35, 0.95), "weights": (0.60, 0.95), "prefill": (0.15, 0.85), "decode": (0.78, 0.87)}
"""Share -> its range on measured GPUs: GEMM 45 to 90 % of peak, a little less on a board of 72 W; weight streaming 69
to 88 % of HBM alone and to 94 % between the kernels of an engine, less where a device has little compute per byte;
prefill attention 30 to 65 % of peak; decode attention over 0.5 GB and more 78 to 87 % of HBM."""


def shares(hardware: Hardware, efficiency: Efficiency) -> PlausibleShares | None:
    """Shares that large kernels of a dense 16-bit model reach; None without a 16-bit matrix peak."""
    compute = next((name for name in ("bf16", "fp16") if name in hardware.matrix), None)
    if compute is None:
        return None
    # A dense 16-bit model with 8 query heads per head of keys.
    weights = WeightFormat(bytes=2.0, compute=compute)
    deployment = Deployment(attention_compute=compute)
    attention = Attention(
        heads=64.0, kv_heads=8.0, head_dim=128.0, value_dim=128.0, window=None, qkv=weights, output=weights
    )
    # Four kernels, each bound by one thing: two by the matrix units, two by memory.
    large = projection("gemm", EDGE, Matrix(EDGE, EDGE, weights), 2.0, 1.0)["gemm"]
    thin = projection("gemm", FEW_ROWS, Matrix(EDGE, WIDE, weights), 2.0, 1.0)["gemm"]
    prompt = Prefill(sequences=1.0, tokens=PROMPT, past=0.0)
    prefill = prefill_attention(attention, deployment, prompt, 1.0)["prefill_attention"]
    decode = Decode(sequences=SEQUENCES, context=SEQUENCES * CONTEXT)
    cached = decode_attention(attention, deployment, decode, 1.0)["decode_attention"]

    # Share = work / (peak x predicted time), of FLOP or of bytes.
    def of_peak(op: AnyOp) -> float:
        work = given(op.matrix_flops if isinstance(op, Kernel) else None, "matrix product")
        return float(work / (matrix_peak(hardware, compute) * _time(op, hardware, efficiency)))

    def of_memory(op: AnyOp) -> float:
        moved = given(op.bytes if isinstance(op, Kernel) else None, "traffic of memory")
        return float(moved / (hardware.memory.hbm.bandwidth * _time(op, hardware, efficiency)))

    return PlausibleShares(
        gemm=of_peak(large), weights=of_memory(thin), prefill=of_peak(prefill), decode=of_memory(cached)
    )


def catalogue_shares(efficiency: Efficiency) -> dict[str, PlausibleShares]:
    """Shares of every accelerator of the catalogue that has a 16-bit matrix peak, by name.

    Left out are those whose kernels are unlike any measured one: they stay spread over a mesh, run in the memory, or
    read SRAM in less time than a launch takes.

    Every op is priced once per accelerator, so that compiling it would take longer than computing it step by step.
    """
    with jax.disable_jit():
        shares_by_name = {
            name: shares(entry.hardware, efficiency)
            for name, entry in hwspaces.catalogue().items()
            if not (spread_over_mesh(entry.hardware) or entry.hardware.memory.near or entry.memory == "SRAM")
        }
    return {name: share for name, share in shares_by_name.items() if share is not None}


def shares_of(hardware: str, efficiency: Efficiency) -> dict[str, PlausibleShares]:
    """Shares of one accelerator, by its name; ValueError of one line where it has no 16-bit matrix peak."""
    entry = hwspaces.hardware(hardware)
    device_shares = shares(entry.hardware, efficiency)
    if device_shares is None:
        raise ValueError(f"{entry.name} has no 16-bit matrix peak")
    return {entry.name: device_shares}


def implausible(plausible_shares: PlausibleShares) -> list[str]:
    """The shares outside of `PLAUSIBLE`, in words."""
    return [
        f"{name} {getattr(plausible_shares, name):.0%} is outside of {low:.0%} to {high:.0%}"
        for name, (low, high) in PLAUSIBLE.items()
        if not low <= getattr(plausible_shares, name) <= high
    ]


def _time(op: AnyOp, hardware: Hardware, efficiency: Efficiency) -> jax.Array:
    # Arrays of JAX, as ops have them in compiled programs.
    return op_time(jax.tree.map(jnp.asarray, op), hardware, efficiency)
