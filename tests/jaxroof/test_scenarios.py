"""Textbook serving scenarios of Llama-2 on A100 and H100: floors, work and messages as one computes them on paper.

Conventions of the hand values: dense 16-bit peaks of 312 and 989.5 TFLOP/s, HBM of 2.039 and 3.35 TB/s, NVLink of
300 GB/s per direction; causal attention counts pairs, so half the square; the TPOT floor streams every matrix once,
without the embedding table and without the cache; a prefill's time is its work at half the peak. They test
arithmetic, not silicon: tolerance 1 %, for their three printed digits and for activations, which they leave out.
"""

import dataclasses

import pytest

import hwspaces
import workloads
from jaxroof import Deployment, datasheet, decode, kv_bytes_per_token, kv_capacity_tokens, parameter_count, prefill
from jaxroof.collectives import collective_times
from jaxroof.efficiency import LinkEfficiency
from jaxroof.op import Kernel
from jaxroof.roofline import op_time
from jaxroof.step.forward import step_ops
from jaxroof.step.step import matrix_floors

HAND = 0.01
A100, H100 = "A100-SXM-80GB", "H100-SXM"


def hardware(name):
    return hwspaces.hardware(name).hardware


def model(size):
    return workloads.model(f"Llama-2-{size}").model


def linear_bytes(size, batch, tp=1.0) -> float:
    """B that a step's projections and head move: their weights once, and a few activations."""
    ops = step_ops(model(size), Deployment(tp=tp), batch).values()
    return float(sum(op.count * op.bytes for op in ops if isinstance(op, Kernel) and op.kind == "linear"))


def matrix_flops(size, batch, tp=1.0) -> float:
    ops = step_ops(model(size), Deployment(tp=tp), batch).values()
    return float(
        sum(op.count * op.matrix_flops for op in ops if isinstance(op, Kernel) and op.matrix_flops is not None)
    )


def ring_time(op):
    """s of a collective on a ring of A100 at the datasheet's bandwidth, without latency."""
    links = hardware(A100).links
    no_latency = dataclasses.replace(links, scale_up=dataclasses.replace(links.scale_up, latency=0.0))
    return collective_times(no_latency, op, LinkEfficiency(losses=0.0), ("ring",))["ring"]


@pytest.mark.parametrize(
    ("size", "device", "tp", "floor"),
    [
        ("7B", A100, 1.0, 6.48e-3),  # 6.607 G weights x 2 B / 2.039e12
        ("7B", H100, 1.0, 3.94e-3),
        ("13B", H100, 1.0, 7.67e-3),  # 12.852 G x 2 B / 3.35e12
        ("70B", A100, 4.0, 16.85e-3),  # 68.713 G x 2 B / 4 / 2.039e12
        ("70B", H100, 8.0, 5.13e-3),
    ],
)
def test_tpot_floor(size, device, tp, floor):
    bandwidth = hardware(device).memory.hbm.bandwidth
    assert linear_bytes(size, decode(1.0, 512.0), tp) / bandwidth == pytest.approx(floor, rel=HAND)


@pytest.mark.parametrize(("size", "device", "tp"), [("7B", A100, 1.0), ("13B", H100, 1.0), ("70B", A100, 4.0)])
def test_decode_projections_run_at_the_floor(size, device, tp):
    """At a batch of one every projection is bound by HBM, so their times add up to the floor exactly."""
    chip, batch = hardware(device), decode(1.0, 512.0)
    ops = step_ops(model(size), Deployment(tp=tp), batch).values()
    time = sum(
        float(op.count * op_time(op, chip, datasheet())) for op in ops if isinstance(op, Kernel) and op.kind == "linear"
    )
    assert time == pytest.approx(linear_bytes(size, batch, tp) / chip.memory.hbm.bandwidth, rel=1e-5)


@pytest.mark.parametrize(
    ("size", "device", "tp", "batch", "flops", "time"),
    [
        # 2 x 6.476 G layer weights x 512 + head on one row + 2 x 131,328 pairs x 32 heads x 256 x 32 layers
        ("7B", A100, 1.0, prefill(1.0, 512.0), 6.70e12, 43.0e-3),
        # 2 x 12.688 G x 2048 = 51.97 T, and 2 x 2.098 M pairs x 40 x 256 x 40 = 1.72 T
        ("13B", H100, 1.0, prefill(1.0, 2048.0), 53.7e12, 108.5e-3),
        # 2 x 68.451 G x 2048 = 280.4 T, and 2 x 2.098 M pairs x 64 x 256 x 80 = 5.50 T; a quarter per device
        ("70B", A100, 4.0, prefill(1.0, 2048.0), 285.8e12 / 4, 458e-3),
    ],
)
def test_prefill(size, device, tp, batch, flops, time):
    assert matrix_flops(size, batch, tp) == pytest.approx(flops, rel=HAND)
    ops = step_ops(model(size), Deployment(tp=tp), batch)
    floor = float(sum(matrix_floors(ops, hardware(device)).values()))
    assert floor / 0.5 == pytest.approx(time, rel=HAND)


def test_prefix_cache():
    """Of 2048 prompt tokens 1536 are cached: the other 512 still attend to them, 0.257 of the work is left."""
    whole, rest = (matrix_flops("7B", prefill(1.0, new, past)) for new, past in ((2048.0, 0.0), (512.0, 1536.0)))
    assert (whole, rest) == pytest.approx((27.63e12, 7.11e12), rel=HAND)
    assert rest / whole == pytest.approx(0.257, rel=HAND)


@pytest.mark.parametrize(
    ("size", "bytes_per_token", "prompt"),
    [("7B", 524_288, 1074e6), ("13B", 819_200, 1678e6), ("70B", 327_680, 671e6)],
)
def test_kv_cache(size, bytes_per_token, prompt):
    """2 x layers x KV heads x 128 x 2 B; of a prompt of 2048 tokens."""
    assert float(kv_bytes_per_token(model(size), Deployment())) == bytes_per_token
    assert 2048 * bytes_per_token == pytest.approx(prompt, rel=HAND)


def test_all_reduce_of_a_prefill():
    """70B on four A100: 2048 x 8192 x 2 B = 33.6 MB, 1.5 x that / 300 GB/s = 0.168 ms, twice in each of 80 layers."""
    ops = step_ops(model("70B"), Deployment(tp=4.0), prefill(1.0, 2048.0))
    reduces = [ops["attention_all_reduce"], ops["feedforward_all_reduce"]]
    assert [float(op.message_bytes) for op in reduces] == pytest.approx([33.55e6, 33.55e6], rel=HAND)
    assert sum(op.count for op in reduces) == 160
    total = sum(float(op.count * ring_time(op)) for op in reduces)
    assert total == pytest.approx(26.8e-3, rel=HAND)


def test_all_reduce_of_a_long_prefill():
    """13B on four A100: 4096 x 5120 x 2 B = 41.9 MB in 0.210 ms."""
    op = step_ops(model("13B"), Deployment(tp=4.0), prefill(1.0, 4096.0))["attention_all_reduce"]
    assert float(op.message_bytes) == pytest.approx(41.9e6, rel=HAND)
    assert float(ring_time(op)) == pytest.approx(0.210e-3, rel=HAND)


def test_tokens_that_fit():
    """7B on 80e9 B at 0.9, nothing reserved: (72e9 - 13.477e9) / 524,288 = 111.6 k tokens, 6976 blocks of 16."""
    chip = hardware(A100)
    hbm = dataclasses.replace(chip.memory.hbm, capacity=80e9)
    chip = dataclasses.replace(chip, memory=dataclasses.replace(chip.memory, hbm=hbm))
    deployment = Deployment(memory_utilization=0.9, reserve_bytes=0.0, max_batched_tokens=0.0)
    tokens = float(kv_capacity_tokens(chip, model("7B"), deployment))
    assert tokens == pytest.approx(111.6e3, rel=HAND)
    assert tokens // 16 == 6976


def test_weights_without_the_embedding():
    """The floor's weights are the parameters less the embedding table and the norms: 6,607,077,376 of 7B."""
    seven = model("7B")
    norms = 32 * 8192 + 4096
    matrices = parameter_count(seven) - seven.vocabulary * seven.hidden - norms
    assert matrices == 6_607_077_376
    # 1 % is the activations' allowance; they are 0.05 % here
    assert linear_bytes("7B", decode(1.0, 512.0)) == pytest.approx(2 * matrices, rel=1e-3)
