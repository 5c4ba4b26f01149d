"""Textbook training scenarios, T1.1 to T4.4, as one computes them on paper: work, messages, bubbles and memory.

Conventions of the hand values: dense 16-bit peaks of 312 (A100) and 989.5 TFLOP/s (H100), NVLink of 300 and 450 GB/s
per direction, 50 GB/s per NIC; 6 FLOP per parameter of a matrix and token (the embedding is looked up, the head is
multiplied) and causal attention at half its square; 16 B per parameter of weights, gradients and Adam's states; time
of work at half the peak. They test arithmetic, not silicon: tolerance 1 %, for their three printed digits.
"""

import pytest

import hwspaces
import workloads
from jaxroof import Deployment, Link, Links, datasheet
from jaxroof.collectives import collective_time
from jaxroof.efficiency import LinkEfficiency
from jaxroof.layers.adapters import adapter_elements
from jaxroof.layers.collective import collective
from jaxroof.op import Collective
from jaxroof.roofline import op_time
from jaxroof.training import RECOMPUTES, LoRA, Training
from jaxroof.training.communication import data_parallel_time
from jaxroof.training.frozen import adapted
from jaxroof.training.memory import activation_memory, layer_activations, training_memory
from jaxroof.training.passes import backward_pass, forward_pass
from jaxroof.training.schedules import SCHEDULES, bubble_time, in_flight
from jaxroof.training.state import data_parallel_ops, held
from jaxroof.training.terms import model_flops
from jaxroof.training.training import micro_batches

HAND = 0.01
A100, H100 = 312e12, 989.5e12
DATASHEET = LinkEfficiency(losses=0.0)


def links(scale_up, scale_out=None) -> Links:
    """Domains of eight devices and a network, without latency."""
    outer = None if scale_out is None else Link(bandwidth=scale_out, latency=0.0, devices=1024.0)
    return Links(scale_up=Link(bandwidth=scale_up, latency=0.0, devices=8.0), scale_out=outer)


def model(name):
    return workloads.model(name, weights="bf16").model


def at_half_peak(name, training, devices, peak) -> float:
    """s of an iteration's work on one of `devices` devices at half the peak."""
    flops = model_flops(model(name), Deployment(), training) * training.global_batch
    return float(flops / devices / (0.5 * peak))


def code(words, word) -> float:
    return float(words.index(word))


def messages(ops, beginnings) -> list[tuple[float, float]]:
    """(times, B) of every all-reduce whose name begins so."""
    return [(float(op.count), float(op.message_bytes)) for name, op in ops.items() if name.startswith(beginnings)]


def test_t1_1_data_parallel_gpt2():
    """354.8 M parameters: 709.6 MB of fp16 gradients go around a ring of 8 at 300 GB/s, 2 x 7/8 x 709.6e6 / 300e9 =
    4.14 ms. 8 x 1024 tokens per device: 6 x 353.5e6 x 8192 = 17.4 TFLOP, and 6 x 24 x 1024 x 512 x 8192 = 0.6 TFLOP of
    attention per product pair, 1.24 in all, which the hand value leaves out: (17.4 + 1.2) / 156 TFLOP/s = 0.119 s. The
    messages hide behind two thirds of it.
    """
    deployment, training = Deployment(dp=8.0), Training(global_batch=64.0, micro_batch=8.0, seq=1024.0)
    gpt = model("GPT-2-medium")
    ops = data_parallel_ops(gpt, deployment, training)["all_reduce"]
    op = ops["gradient_all_reduce"]
    assert float(op.count * op.message_bytes) == pytest.approx(2 * 354.8e6, rel=HAND)
    time = float(op.count * collective_time(links(300e9), op, DATASHEET))
    assert time == pytest.approx(4.14e-3, rel=HAND)
    compute = at_half_peak("GPT-2-medium", training, 8.0, A100)
    assert compute == pytest.approx((6 * 353.5e6 * 8192 + 6 * 24 * 1024 * 1024 * 8192) / 156e12, rel=HAND)
    sums = {"dp_all_reduce": time, "dp_reduce_scatter": 0.0, "dp_all_gather": 0.0}
    exposed, beside = data_parallel_time(sums, training, 1.0, compute / 3, compute * 2 / 3)
    hidden = sum(beside.values())
    assert float(exposed) == 0.0 and float(hidden) == pytest.approx(time)


def test_t1_2_zero_1():
    """Llama-2-7B: 16 B x 6.738e9 = 107.8 GB do not fit 80; ZeRO-1 over 8: (4 + 12 / 8) x 6.738e9 = 37.1 GB. Gradients
    of 13.48 GB: 2 x 7/8 x 13.48e9 / 450e9 = 52.4 ms. 4096 x (6 x 6.607e9 + 6 x 32 x 4096 x 4096) = 175.6 TFLOP at
    494.75 TFLOP/s = 355 ms.
    """
    deployment, training = Deployment(dp=8.0), Training(global_batch=8.0, seq=4096.0, zero=1.0)
    llama = model("Llama-2-7B")
    memory = training_memory(llama, deployment, training)
    assert float(memory.weights + memory.gradients + memory.optimizer) == pytest.approx(37.1e9, rel=HAND)
    plain = training_memory(llama, deployment, Training(global_batch=8.0, seq=4096.0))
    assert float(plain.weights + plain.gradients + plain.optimizer) == pytest.approx(107.8e9, rel=HAND)
    ops = data_parallel_ops(llama, deployment, training)
    alone = {kind: next(iter(found.values())) for kind, found in ops.items()}
    times = {kind: float(op.count * collective_time(links(450e9), op, DATASHEET)) for kind, op in alone.items()}
    assert times["all_reduce"] == pytest.approx(52.4e-3, rel=HAND)
    assert times["reduce_scatter"] + times["all_gather"] == pytest.approx(52.4e-3, rel=HAND)
    assert at_half_peak("Llama-2-7B", training, 8.0, H100) == pytest.approx(0.355, rel=HAND)


def test_t1_3_zero_3_is_bound_by_the_network():
    """Llama-2-13B over 64: 16 x 13.016e9 / 64 = 3.25 GB of state. Two gathers and a scatter of 26.03 GB, of which a
    device has 1/64: 3 x 26.03 x 63/64 = 76.9 GB per device, at 50 GB/s 1538 ms, against 680 ms of work per sequence:
    exposed at one sequence per micro-batch, hidden from three on.

    A device's own NIC does not carry all of it: of 8 rings through domains of 8 each sends its 1/8 through one NIC,
    which binds: 76.9 GB / 8 / 50 GB/s = 192 ms, against 7/8 x 78.1 GB / 450 GB/s = 152 ms over NVLink.
    """
    deployment = Deployment(dp=64.0)
    sizes = [Training(global_batch=64.0 * n, micro_batch=n, seq=4096.0, zero=3.0) for n in (1.0, 2.0, 3.0)]
    llama = model("Llama-2-13B")
    memory = training_memory(llama, deployment, sizes[0])
    assert float(memory.weights + memory.gradients + memory.optimizer) == pytest.approx(3.25e9, rel=HAND)
    ops = {kind: next(iter(found.values())) for kind, found in data_parallel_ops(llama, deployment, sizes[0]).items()}
    assert {float(op.count) for op in ops.values()} == {40.0}  # a message per layer
    sent = 40.0 * (2.0 * ops["all_gather"].message_bytes + ops["reduce_scatter"].message_bytes)
    assert float(sent) * 63 / 64 == pytest.approx(76.9e9, rel=HAND)
    alone = Links(scale_up=None, scale_out=Link(bandwidth=50e9, latency=0.0, devices=64.0))
    sums = {f"dp_{kind}": op.count * collective_time(alone, op, DATASHEET) for kind, op in ops.items()}
    total = float(2.0 * sums["dp_all_gather"] + sums["dp_reduce_scatter"])
    assert total == pytest.approx(1.538, rel=HAND)
    work = [at_half_peak("Llama-2-13B", training, 64.0, H100) for training in sizes]
    assert work[0] == pytest.approx(0.680, rel=HAND)
    exposed = [float(data_parallel_time(sums, sizes[0], 1.0, s / 3, s * 2 / 3)[0]) for s in work]
    assert exposed[0] == pytest.approx(total - work[0], rel=HAND)
    assert exposed[1] > 0.0 and exposed[2] == 0.0
    real = sum(
        40.0 * runs * collective_time(links(450e9, 50e9), ops[kind], DATASHEET)
        for kind, runs in (("all_gather", 2.0), ("reduce_scatter", 1.0))
    )
    assert float(real) == pytest.approx(0.192, rel=HAND)


def test_t2_1_tensor_parallel_messages():
    """Llama-2-13B on 4 A100: 4096 x 5120 x 2 B = 41.9 MB, 2 x 3/4 x 41.9e6 / 300e9 = 0.210 ms, twice forward and twice
    backward in each of 40 layers: 33.6 ms, against 4096 x 82.1 GFLOP / 4 / 156 TFLOP/s = 539 ms (5.9 % of the sum).
    16 x 13.016e9 / 4 = 52.1 GB of state.
    """
    deployment, training = Deployment(tp=4.0), Training(global_batch=1.0, seq=4096.0)
    llama = model("Llama-2-13B")
    forward = forward_pass(llama, deployment, training)
    backward = backward_pass(forward, training)
    found = [one for part in (forward, backward) for one in messages(part.layers, ("attention_all", "feedforward_all"))]
    assert sum(runs for runs, _ in found) == 160 and {size for _, size in found} == {4096 * 5120 * 2}
    op = collective("all_reduce", found[0][1], 4.0, 1.0)
    once = float(collective_time(links(300e9), op, DATASHEET))
    assert once == pytest.approx(0.210e-3, rel=HAND)
    work = at_half_peak("Llama-2-13B", training, 4.0, A100)
    assert 160 * once == pytest.approx(33.6e-3, rel=HAND) and work == pytest.approx(0.539, rel=HAND)
    assert 160 * once / (160 * once + work) == pytest.approx(0.059, rel=HAND)
    memory = training_memory(llama, deployment, training)
    assert float(memory.weights + memory.gradients + memory.optimizer) == pytest.approx(52.1e9, rel=HAND)


def test_t2_2_tensor_and_data_parallel():
    """Llama-2-70B, tp 8 and dp 8: 4096 x 8192 x 2 B = 67.1 MB, 2 x 7/8 x 67.1e6 / 450e9 = 0.261 ms, 320 times: 83.5 ms
    against 443 ms. State with ZeRO-1: 68.98e9 / 8 x (4 + 12 / 8) = 47.4 GB, without copies 138 GB.
    """
    training = Training(global_batch=8.0, seq=4096.0, zero=1.0)
    llama, once = model("Llama-2-70B"), collective("all_reduce", 4096 * 8192 * 2.0, 8.0, 1.0)
    time = float(collective_time(links(450e9, 50e9), once, DATASHEET))
    assert time == pytest.approx(0.261e-3, rel=HAND) and 320 * time == pytest.approx(83.5e-3, rel=HAND)
    assert at_half_peak("Llama-2-70B", training, 64.0, H100) == pytest.approx(0.443, rel=HAND)
    for dp, expected in ((8.0, 47.4e9), (1.0, 138e9)):
        memory = training_memory(llama, Deployment(tp=8.0, dp=dp), training)
        assert float(memory.weights + memory.gradients + memory.optimizer) == pytest.approx(expected, rel=HAND)


def test_t3_1_pipeline():
    """Llama-2-13B in 8 stages, 32 micro-batches: 7 / (32 + 7) = 17.9 % idle; the first stage holds 8. The mean stage
    has 16 x 13.016e9 / 8 = 26.0 GB of state; the fullest 5 layers and the embedding: 16 x (5 x 317.2e6 + 163.8e6) =
    28.0 GB.
    """
    deployment, training = Deployment(pp=8.0), Training(global_batch=32.0, seq=4096.0)
    number = micro_batches(training, deployment)
    idle = bubble_time(training.schedule, 1.0, 2.0, 1.0, 8.0, 1.0, number)
    assert float(idle / (idle + 3.0 * number)) == pytest.approx(0.179, rel=HAND)
    assert float(in_flight(training.schedule, 8.0, 1.0, number)) == 8.0
    llama = model("Llama-2-13B")
    assert 16 * float(held(llama, deployment, training).plain) == pytest.approx(28.0e9, rel=HAND)
    one = Training(global_batch=1.0, seq=4096.0)
    assert float(activation_memory(llama, deployment, training)) == pytest.approx(
        8.0 * 5.0 * float(layer_activations(llama.blocks[0], llama.hidden, deployment, one)), rel=1e-6
    )


@pytest.mark.parametrize(("number", "share"), [(8, 0.467), (16, 0.304), (32, 0.179), (64, 0.0986), (128, 0.0519)])
def test_t3_2_bubbles(number, share):
    """7 / (m + 7) of 8 stages."""
    idle = float(bubble_time(1.0, 1.0, 2.0, 1.0, 8.0, 1.0, float(number)))
    assert idle / (idle + 3.0 * number) == pytest.approx(share, rel=HAND)


def test_t3_2_gpt3():
    """GPT-3 175B on 8 stages of tp 8. Two chunks per device and 64 micro-batches: 3.5 / 67.5 = 5.19 % idle. 6 x 174.6e9
    + 6 x 96 x 12288 x 2048 = 1.062 TFLOP per token: 2048 of them on 64 devices at 494.75 TFLOP/s, 68.7 ms per stage and
    micro-batch. 12 layers x 4 all-reduces of 50.3 MB: 48 x 2 x 7/8 x 50.3e6 / 450e9 = 9.4 ms. State 16 x 174.6e9 / 64 =
    43.6 GB in the mean; the fullest stage has 12 of 96 layers and the embedding of 51,200 words, an eighth
    of each, and all of the positions: 16 x ((12 x 1.812e9 + 0.629e9) / 8 + 2048 x 12288) = 45.2 GB.
    """
    deployment = Deployment(tp=8.0, pp=8.0)
    training = Training(global_batch=64.0, seq=2048.0, schedule=code(SCHEDULES, "interleaved"), virtual_stages=2.0)
    idle = float(bubble_time(training.schedule, 1.0, 2.0, 1.0, 8.0, 2.0, 64.0))
    assert idle / (idle + 3.0 * 64) == pytest.approx(0.0519, rel=HAND)
    gpt = model("GPT-3-175B")
    flops = float(model_flops(gpt, deployment, training))
    assert flops / 2048 == pytest.approx(1.062e12, rel=HAND)
    assert flops / 64 / (0.5 * H100) == pytest.approx(68.7e-3, rel=HAND)
    once = collective("all_reduce", 2048 * 12288 * 2.0, 8.0, 1.0)
    assert 48 * float(collective_time(links(450e9), once, DATASHEET)) == pytest.approx(9.4e-3, rel=HAND)
    assert 16 * float(held(gpt, deployment, training).plain) == pytest.approx(45.2e9, rel=HAND)


def test_t4_1_fp8():
    """Llama-2-13B, tp 2, at an H100's datasheet: products of linear layers take half the time at 8 bits, at most;
    attention, norms and messages take as long as before, and conversions come on top.
    """
    device = hwspaces.hardware("H100-SXM").hardware
    deployment, training = Deployment(tp=2.0, dp=4.0), Training(global_batch=4.0, seq=4096.0)
    times = []
    for weights in ("bf16", "fp8"):
        llama = workloads.model("Llama-2-13B", weights=weights).model
        forward = forward_pass(llama, deployment, training).layers
        ops = forward | backward_pass(forward_pass(llama, deployment, training), training).layers
        times.append({name: float(op.count * op_time(op, device, datasheet())) for name, op in ops.items()})
    old, new = times
    for name in old:
        assert new[name] >= 0.5 * old[name] * (1 - 1e-3)  # peaks are rounded
        if "proj" not in name:
            assert new[name] == pytest.approx(old[name], rel=1e-5)
    products = [sum(time for name, time in one.items() if "proj" in name and "quantize" not in name) for one in times]
    assert products[0] == pytest.approx(2 * products[1], rel=HAND)
    assert 1.2 < sum(old.values()) / sum(new.values()) < 2.0


def test_t4_2_lora():
    """Llama-2-7B, rank 16 on q and v: 32 x 2 x 16 x (4096 + 4096) = 8.39 M parameters are trained. A token takes
    4 x 6.607e9 FLOP of frozen matrices, 6 x 32 x 4096 x 2048 of attention and 6 x 8.39e6 of adapters. Memory: 2 B of
    every weight, 16 B of every adapter's.
    """
    deployment, llama = Deployment(), model("Llama-2-7B")
    training = Training(global_batch=1.0, seq=2048.0, lora=LoRA(rank=16.0, targets=("q", "v")))
    assert float(adapter_elements(llama, adapted(deployment, training.lora))) == 32 * 2 * 16 * (4096 + 4096)
    expected = 4 * 6.607e9 + 6 * 32 * 4096 * 2048 + 6 * 8.39e6
    assert float(model_flops(llama, deployment, training)) / 2048 == pytest.approx(expected, rel=1e-3)
    memory = training_memory(llama, deployment, training)
    assert float(memory.weights) == pytest.approx(2 * (6.738e9 + 8.39e6), rel=1e-3)
    assert float(memory.gradients + memory.optimizer) == pytest.approx(14 * 8.39e6, rel=1e-3)
    backward = backward_pass(forward_pass(llama, deployment, training), training)
    weights = {name for name in backward.layers if name.endswith("_wgrad")}
    assert weights == {f"lora_{target}_{part}_wgrad" for target in "qv" for part in "ab"}
    assert backward.first == {} and "head_dgrad" in backward.last and "head_wgrad" not in backward.last


def test_t4_3_activations():
    """A layer of GPT-3, s b h = 2048 x 12288 = 25.2e6: 34 B of each, 856 MB; tp 8 leaves 10 + 24 / 8 = 13 B, 327 MB;
    with sequence parallelism 34 / 8 B, 107 MB. Scores of attention that is not fused add 5 a s / h = 80 B; selective
    recomputation takes them away. Full recomputation keeps the input alone: 2 B.
    """
    gpt = model("GPT-3-175B")

    def kept(tp, parallel=False, kernel="fused", **settings):
        deployment = Deployment(tp=tp, sequence_parallel=parallel, attention_kernel=kernel)
        training = Training(global_batch=1.0, seq=2048.0, dropout=1.0, **settings)
        return float(layer_activations(gpt.blocks[0], gpt.hidden, deployment, training))

    assert kept(1.0) == pytest.approx(856e6, rel=HAND)
    assert kept(8.0) == pytest.approx(327e6, rel=HAND)
    assert kept(8.0, True) == pytest.approx(107e6, rel=HAND)
    assert kept(1.0, kernel="unfused") == pytest.approx((34 + 80) * 2048 * 12288, rel=HAND)
    selective = code(RECOMPUTES, "selective")
    assert kept(1.0, kernel="unfused", recompute=selective) == pytest.approx(856e6, rel=HAND)
    full = Training(global_batch=1.0, seq=2048.0, recompute=code(RECOMPUTES, "full"))
    layers = 96 * 2 * 2048 * 12288 + 2048 * (2 * 12288 * 2 + 4 * 51200)
    assert float(activation_memory(gpt, Deployment(), full)) == pytest.approx(layers, rel=1e-3)


def test_t4_3_sequence_parallelism_sends_as_much():
    """Reduce-scatter and all-gather are the two halves of an all-reduce, forward and backward."""
    gpt, training = model("GPT-3-175B"), Training(global_batch=1.0, seq=2048.0)
    sent = []
    for parallel in (False, True):
        deployment = Deployment(tp=8.0, sequence_parallel=parallel)
        forward = forward_pass(gpt, deployment, training)
        passes = (forward.layers, backward_pass(forward, training).layers)
        ops = [op for part in passes for op in part.values() if isinstance(op, Collective)]
        sent.append(sum(float(op.count * op.message_bytes) * (2 if op.operation == "all_reduce" else 1) for op in ops))
    assert sent[0] == sent[1] == 96 * 4 * 2 * 2048 * 12288 * 2


def test_t4_4_all_to_all():
    """Mixtral-8x7B, ep 8, 4096 tokens per device and two experts each: 2 x 4096 x 4096 x 2 B = 67.1 MB, 7/8 of which
    leave: 58.7 MB, at 450 GB/s 0.130 ms. No two experts share a device. Two forward and two backward in each of
    32 layers.
    """
    deployment = Deployment(attention_dp=8.0, ep=8.0)
    training, mixtral = Training(global_batch=8.0, seq=4096.0), model("Mixtral-8x7B")
    forward = forward_pass(mixtral, deployment, training)
    backward = backward_pass(forward, training)
    found = {
        name: op
        for part in (forward.layers, backward.layers)
        for name, op in part.items()
        if isinstance(op, Collective) and op.operation == "all_to_all"
    }
    assert {float(op.count) for op in found.values()} == {32.0} and len(found) == 4
    sizes = [float(op.message_bytes) for op in found.values()]
    assert sizes == pytest.approx([4096 * 2 * 4096 * 2] * 4, rel=1e-5)
    time = float(collective_time(links(450e9), next(iter(found.values())), DATASHEET))
    assert time == pytest.approx(0.130e-3, rel=HAND)
    assert 2 * 4096 * 4096 * 2 * 7 / 8 == pytest.approx(58.7e6, rel=HAND)


def test_every_kind_of_memory_shrinks_with_its_zero_stage():
    """12 B of states from ZeRO-1 on, 2 B of gradients from 2 on, 2 B of weights from 3 on are divided by 8 devices."""
    llama = model("Llama-2-7B")
    found = [
        training_memory(llama, Deployment(dp=8.0), Training(global_batch=8.0, seq=512.0, zero=z)) for z in range(4)
    ]
    ways = [[float(found[0].optimizer / one.optimizer) for one in found]]
    ways += [[float(found[0].gradients / one.gradients) for one in found]]
    ways += [[float(found[0].weights / one.weights) for one in found]]
    assert ways == [[1, 8, 8, 8], [1, 1, 8, 8], [1, 1, 1, 8]]
