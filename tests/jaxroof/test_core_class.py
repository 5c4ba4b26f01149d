"""Constants by class of cores: hand-worked values, what changes nothing, gradients, and engines' own conversions."""

import dataclasses

import jax
import numpy as np
import pytest

import hwspaces
from hwspaces.performance.efficiency_file import efficiency_text
from hwspaces.performance.kernel_tables import kernel_table
from jaxroof.deployment import Deployment
from jaxroof.efficiency.decode import DecodeKernel, decode_timing, published
from jaxroof.efficiency.timing import on_cores
from jaxroof.hardware import Cores
from jaxroof.layers.attention_kernels import fused_attention
from jaxroof.op import AttentionShape, Kernel

AMPERE, HOPPER, BLACKWELL = (0.0, 0.0), (1.0, 0.0), (1.0, 1.0)
"""`asynchronous` and `tensor_memory` of their cores."""


def cores(asynchronous: float, tensor_memory: float) -> Cores:
    return Cores(count=100.0, vector_flops=5e11, exp_rate=None, asynchronous=asynchronous, tensor_memory=tensor_memory)


@pytest.mark.parametrize(
    ("kind", "fill", "blocks"),
    [
        (AMPERE, 1.0, 2.0),  # general ones
        (HOPPER, 3.0, 2.0),  # own fill; blocks are general
        (BLACKWELL, 1.0, 5.0),  # own blocks; the fill of Hopper is not theirs
        # Half of the way: fill 1 + 0.5 (1 - 0.5) (3 - 1) = 1.5, blocks 2 + 0.5 x 0.5 (5 - 2) = 2.75.
        ((0.5, 0.5), 1.5, 2.75),
    ],
)
def test_constants_by_class(kind, fill, blocks):
    """General constants, with those of the class in their place."""
    kernel = dataclasses.replace(published(), fill=1.0, blocks=2.0)
    found = on_cores(kernel, cores(*kind), {"fill": 3.0}, {"blocks": 5.0})
    assert (found.fill, found.blocks) == (fill, blocks)
    assert found.split_keys == kernel.split_keys


def test_constants_of_wide_waves():
    """Where 64 threads run together and nothing is asynchronous: experts that stream at half of the bandwidth."""
    waved = dataclasses.replace(cores(*AMPERE), wide_waves=1.0)
    kernel = dataclasses.replace(published(), fill=1.0)
    assert on_cores(kernel, waved, {"fill": 3.0}, {"fill": 4.0}, {"fill": 5.0}).fill == 5.0
    assert on_cores(kernel, cores(*HOPPER), wide_waves={"fill": 5.0}).fill == 1.0


def test_without_classes():
    """A kernel that has none stays the same object."""
    kernel = published()
    assert on_cores(kernel, cores(*BLACKWELL)) is kernel


def decoding(kv_bytes: float, sequences: float = 64.0, keys: float = 4096.0) -> Kernel:
    """One layer of 32 heads in groups of 4, heads of 128: Llama-3.1-8B."""
    shape = AttentionShape(
        sequences=sequences,
        queries=1.0,
        keys=keys,
        pairs=keys,
        heads=32.0,
        kv_heads=8.0,
        key_width=128.0,
        value_width=128.0,
        kv_bytes=kv_bytes,
    )
    return fused_attention("decode_attention", Deployment(kv_bytes=kv_bytes, attention_compute="bf16"), shape, 1.0)


def test_gradient():
    """Finite with respect to hardware, switches included, and to constants of every class."""
    device = hwspaces.hardware("B200-SXM").hardware
    kernel = dataclasses.replace(published(), asynchronous={"slow_bytes": 1.5}, tensor_memory={"unit_cycles": 2e3})
    slopes = jax.grad(lambda one, where: decode_timing(one, decoding(1.0), where).total, argnums=(0, 1))(kernel, device)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(slopes))


@pytest.mark.parametrize("device", ["B200-SXM", "L40S", "A100-SXM-80GB", "MI300X", "Gaudi3"])
@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
def test_small_caches_are_faster_than_large_ones(engine, device):
    """A large cache of 8 bits takes less time than one of 16 wherever no conversion on Hopper stands in its way."""
    hardware = hwspaces.hardware(device).hardware
    kernel = hwspaces.efficiency(f"learned-{engine}").efficiency.decode_attention.wide
    narrow, wide = (float(decode_timing(kernel, decoding(size), hardware).total) for size in (1.0, 2.0))
    assert narrow < wide


def test_engine_runs_around_latent_attention():
    """The small kernels that served points showed are no part of the kernel's own time."""
    kernel = hwspaces.efficiency("learned-trtllm").efficiency.decode_attention.latent
    hardware, op = hwspaces.hardware("H200-SXM").hardware, decoding(2.0)
    alone = dataclasses.replace(op, reuse_bytes=op.bytes)
    without = dataclasses.replace(kernel, around_time=None)
    assert decode_timing(kernel, alone, hardware).total == decode_timing(without, alone, hardware).total
    # One run of two kernels: once its time.
    more = decode_timing(kernel, op, hardware).total - decode_timing(without, op, hardware).total
    np.testing.assert_allclose(more, 0.5 * op.kernels * kernel.around_time, rtol=1e-6)


TABLE = {"wide": {"model": "decode", "launch_time_us": 1.0, "asynchronous": {"fill": 2.0, "launch_time_us": 3.0}}}


def table(**changes):
    general = {
        field.name: 1.0
        for field in dataclasses.fields(DecodeKernel)
        if field.default is dataclasses.MISSING and field.name != "launch_time"
    }
    return {"wide": {**TABLE["wide"], **general, **changes}}


def test_file():
    """Constants of a class are read with the units of their keys, and a wrong one is refused."""
    kernels, _ = kernel_table(table(), "here")
    assert kernels.wide.asynchronous == {"fill": 2.0, "launch_time": 3e-6}
    assert kernels.wide.tensor_memory is None
    with pytest.raises(ValueError, match=r"here\.wide\.asynchronous: fil = 2\.0 is not known; did you mean fill"):
        kernel_table(table(asynchronous={"fil": 2.0}), "here")
    with pytest.raises(ValueError, match=r"here\.wide\.asynchronous = 2 is not a table"):
        kernel_table(table(asynchronous=2), "here")


def test_text_of_a_file():
    """What is written is what is read: a line per constant of a class."""
    entry = hwspaces.efficiency("learned-trtllm").efficiency
    text = efficiency_text(entry, _Everything(), {"engine": "any"}, (), "comment")
    kernels = entry.decode_attention
    assert f"asynchronous.narrow_share = {kernels.wide.asynchronous['narrow_share']:.4g}" in text
    assert f"around_time_us = {1e6 * kernels.latent.around_time:.4g}" in text


class _Everything(dict):
    """A source for every path."""

    def __missing__(self, path: str) -> str:
        return "ours"
