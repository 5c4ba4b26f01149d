"""The backward pass op by op, and the iteration that passes make up, against numbers that were worked out by hand."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxroof import Deployment, LoRA, Training, datasheet, iteration_cost
from jaxroof.layers.collective import collective
from jaxroof.layers.linear import Matrix, elementwise, norm, projection
from jaxroof.model import WeightFormat
from jaxroof.op import Kernel
from jaxroof.training.backward import CONJUGATES, backward_ops, transposed
from jaxroof.training.passes import backward_pass, forward_pass
from jaxroof.training.training import RECOMPUTES
from tests.hand import check
from tests.uncompiled import uncompiled

TRAINING = Training(global_batch=8.0, seq=1000.0)


def test_product(bf16):
    """Y = X W of 6 rows, 4 inputs, 10 outputs: 480 FLOP. dX = dY W^T reads 6 x 10 and 10 x 4 and writes 6 x 4 elements
    of 2 B: 248 B. dW = X^T dY of k = 6 reads 6 x (4 + 10) x 2 = 168 B and adds 40 gradients of 4 B: 2 x 160 B.
    """
    forward = projection("up", 6.0, Matrix(4.0, 10.0, bf16), 2.0, 3.0)
    found = backward_ops(forward, 4.0)
    assert list(found) == ["up_dgrad", "up_wgrad"]
    check(found["up_dgrad"], matrix_flops=480, bytes=2 * (60 + 40 + 24), count=3, kernels=1)
    check(found["up_dgrad"].shape, rows=6, inputs=10, outputs=4, matrices=1)
    check(found["up_wgrad"], matrix_flops=480, bytes=168 + 320, count=3)
    check(found["up_wgrad"].shape, rows=4, inputs=6, outputs=10, weight_bytes=2, output_bytes=4)
    assert list(backward_ops(forward, frozen=True)) == ["up_dgrad"]


def test_grouped_product(bf16):
    """3 experts that share 12 rows: each gradient of its weights sums over 4 of them, 2 x 3 x 4 x 4 x 10 = 960 FLOP."""
    forward = projection("up", 12.0, Matrix(4.0, 10.0, bf16, 8.0), 2.0, 1.0, "experts", 3.0)
    wgrad = backward_ops(forward)["up_wgrad"]
    check(wgrad, matrix_flops=960)
    check(wgrad.shape, rows=12, inputs=4, outputs=10, matrices=3)
    none = projection("up", 0.0, Matrix(4.0, 10.0, bf16, 8.0), 2.0, 1.0, "experts", 0.0)
    assert np.isfinite(jax.tree.leaves(backward_ops(none))).all()


def test_fp8_products_convert_gradients(bf16):
    """6 x 10 gradients are read at 2 B and written at 1 B, twice where weights have a gradient; so are the 6 x 4 inputs
    then. The conversion of inputs has no backward pass.
    """
    fp8 = WeightFormat(bytes=1.0, compute="fp8")
    forward = projection("up", 6.0, Matrix(4.0, 10.0, fp8), 2.0, 1.0)
    check(forward["up_quantize"], bytes=6 * 4 * 3, vector_flops=6 * 4 * 4)
    check(transposed(forward)["up_quantize"], bytes=6 * 4 * 4, vector_flops=6 * 4 * 6)
    check(backward_ops(forward, frozen=True)["up_grad_quantize"], bytes=6 * 10 * 3, vector_flops=6 * 10 * 4)
    found = backward_ops(forward)
    assert list(found) == ["up_grad_quantize", "up_dgrad", "up_wgrad"]
    check(found["up_grad_quantize"], bytes=6 * 10 * 4, vector_flops=6 * 10 * 6)
    assert {op.precision for op in found.values()} == {"fp8"}
    check(found["up_dgrad"], bytes=40 * 1 + 6 * (10 * 1 + 4 * 2))


def test_other_kernels():
    """A norm moves half as much again; collectives become their conjugates; a ring goes around twice."""
    ops = {
        "norm": norm(6.0, 10.0, 2.0, 1.0),
        "gelu": elementwise(6.0, reads=1.0, writes=1.0, element_bytes=2.0, flops=4.0, count=1.0, exps=1.0),
        **{kind: collective(kind, 100.0, 4.0, 1.0) for kind in CONJUGATES},
    }
    found = backward_ops(ops)
    check(found["norm_backward"], bytes=1.5 * 6 * 40 * 2, vector_flops=2 * 6 * 50)
    check(found["gelu_backward"], exps=6)
    conjugates = {name: found[f"{name}_backward"].operation for name in CONJUGATES}
    assert conjugates == CONJUGATES and float(found["send_recv_backward"].count) == 2.0
    with pytest.raises(ValueError, match="a broadcast has no backward pass"):
        backward_ops({"broadcast": collective("broadcast", 1.0, 2.0, 1.0)})


def test_attention_is_two_and_a_half_times(dense, single):
    """Five products against two; queries, keys, values, outputs, and the gradient of each."""
    forward = forward_pass(dense, single, TRAINING)
    backward = backward_pass(forward, TRAINING)
    ahead, back = forward.layers["prefill_attention"], backward.layers["prefill_attention_backward"]
    check(back, matrix_flops=2.5 * float(ahead.matrix_flops), bytes=2 * float(ahead.bytes), exps=float(ahead.exps))


def test_sums_around_attention(dense, single):
    """Per query and head: 4 B of each of the outputs' elements before, 10 B of each of the query's after."""
    backward = backward_pass(forward_pass(dense, single, TRAINING), TRAINING)
    shape = backward.layers["prefill_attention_backward"].shape
    rows = 1000.0 * shape.heads / 2.5
    found = backward.layers["prefill_attention_row_sums"]
    check(found, bytes=rows * (4 * shape.value_width + 10 * shape.key_width), vector_flops=2 * rows * shape.value_width)
    assert float(found.kernels) == 2.0


def test_products_take_twice_the_forward_pass(dense, mixture):
    """Gradients of inputs and of weights, a forward product each."""
    for model in (dense, mixture):
        forward = forward_pass(model, Deployment(), TRAINING)
        backward = backward_pass(forward, TRAINING)
        flops = [
            sum(
                float(op.count * op.matrix_flops)
                for part in one
                for op in part.values()
                if isinstance(op, Kernel) and op.shape is not None and op.kind != "prefill_attention"
            )
            for one in (forward, backward)
        ]
        assert flops[1] == pytest.approx(2 * flops[0], rel=1e-6)


@pytest.fixture(scope="module")
def times(chip, dense):
    """Iterations of four layers on plain devices, compiled once for all codes."""
    program = jax.jit(lambda deployment, training: iteration_cost(chip, dense, deployment, training, datasheet()))
    spread = Deployment(tp=1.0, pp=1.0, cp=1.0)

    def found(degrees=None, **settings):
        return program(
            jax.tree.map(float, dataclasses.replace(spread, **(degrees or {}))),
            jax.tree.map(float, dataclasses.replace(TRAINING, **settings)),
        )

    return found


def test_parts_add_up(times):
    """time = m (forward + backward) + bubble + exposed messages + update + contention; the bubble of 1f1b is
    (p - 1) (f + b).
    """
    one = times({"pp": 4.0, "dp": 2.0})
    assert float(one.micro_batches) == 4.0
    assert float(one.bubble) == pytest.approx(3 * float(one.forward + one.backward), rel=1e-6)
    total = 4 * (one.forward + one.backward) + one.bubble + one.exposed["dp"] + one.optimizer + one.contention
    assert float(one.time) == pytest.approx(float(total), rel=1e-6)


def test_recomputation_adds_forward_passes(times):
    """Whole layers: a forward pass again; attention alone: less."""
    none, selective, full = (times(recompute=float(code)) for code in range(len(RECOMPUTES)))
    assert float(none.recompute) == 0.0 < float(selective.recompute) < float(full.recompute)
    assert float(full.recompute) <= 8 * float(none.forward)
    assert float(full.time - none.time) == pytest.approx(float(full.recompute), rel=1e-4)
    assert float(full.executed) > float(selective.executed) > float(none.executed)


def test_messages_between_copies(times):
    """What hides and what does not make up the same sum; without overlap nothing hides. ZeRO-3 sends half as much
    again as ZeRO-1 per micro-batch.
    """
    dp = {"dp": 8.0}
    for zero in (0.0, 1.0, 2.0, 3.0):
        hidden, shown = times(dp, zero=zero), times(dp, zero=zero, overlap=0.0)
        assert float(shown.hidden["dp"]) == 0.0
        both = float(hidden.exposed["dp"] + hidden.hidden["dp"])
        assert both == pytest.approx(float(shown.exposed["dp"]), rel=0.01)  # smooth where both take about as long
    sent = [float(times(dp, zero=zero, overlap=0.0).exposed["dp"]) for zero in (1.0, 3.0)]
    assert sent[1] == pytest.approx(1.5 * sent[0], rel=0.05)  # latencies, of one message per layer, are no volume
    assert float(times(zero=3.0, overlap=0.0).exposed["dp"]) == 0.0


def test_offloaded_states_take_the_link(times, chip, dense):
    """12 B of every parameter at 10 GB/s."""
    training = dataclasses.replace(TRAINING, offload=1.0, host_bandwidth=1e10)
    found = iteration_cost(chip, dense, Deployment(), training, datasheet())
    plain = iteration_cost(chip, dense, Deployment(), TRAINING, datasheet())
    parameters = 4 * (1000 * 1400 + 1000 * 1000 + 3 * 1000 * 3000 + 2000) + 2 * 20_000 * 1000 + 1000
    assert float(found.optimizer - plain.optimizer) == pytest.approx(12 * parameters / 1e10, rel=1e-3)


def test_adapters_spare_gradients_of_weights(chip, dense):
    """Less time than training every weight, in the backward pass, though layers of 1000 are small for a rank of 8, and
    in the update.
    """
    lora = dataclasses.replace(TRAINING, lora=LoRA(rank=8.0, targets=("q", "v")))
    thin, whole = (iteration_cost(chip, dense, Deployment(), one, datasheet()) for one in (lora, TRAINING))
    assert float(thin.backward) < 0.8 * float(whole.backward)
    assert float(thin.optimizer) < 0.1 * float(whole.optimizer)


def test_gradients_are_finite_and_right(chip, dense):
    """Reverse mode in every number of hardware, deployment and training at once, at a corner where nothing is split
    and in the middle; along the devices' rates all elasticities add up to -1, as time is counted in seconds.
    """

    def time(hardware, deployment, training):
        return iteration_cost(hardware, dense, deployment, training, datasheet()).time

    gradient = uncompiled(jax.value_and_grad(time, (0, 1, 2)))
    for degrees, settings in (({}, {}), ({"tp": 2.0, "pp": 2.0, "dp": 2.0}, {"zero": 3.0, "schedule": 3.0})):
        deployment = dataclasses.replace(Deployment(tp=1.0, pp=1.0), **degrees)
        value, slopes = gradient(chip, deployment, dataclasses.replace(TRAINING, **settings))
        assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(slopes))
        hardware = slopes[0]
        rates = [(hardware.matrix["bf16"], chip.matrix["bf16"]), (hardware.cores.vector_flops, chip.cores.vector_flops)]
        rates += [(hardware.cores.exp_rate, chip.cores.exp_rate)]
        levels = [(hardware.memory, chip.memory, name) for name in ("hbm", "l2", "scratchpad")]
        levels += [(hardware.links, chip.links, name) for name in ("scale_up", "scale_out")]
        rates += [(getattr(g, name).bandwidth, getattr(x, name).bandwidth) for g, x, name in levels]
        times = [
            (getattr(hardware.links, name).latency, getattr(chip.links, name).latency)
            for name in ("scale_up", "scale_out")
        ]
        total = sum(g * x for g, x in rates) - sum(g * x for g, x in times)
        assert float(total / value) == pytest.approx(-1.0, rel=1e-4)
