"""Messages of training against numbers worked out by hand: buckets, gathers of quantised tokens, chunks, contention."""

import dataclasses

import pytest

from jaxroof import Deployment, LoRA, Training, datasheet, iteration_cost
from jaxroof.memory.capacity import layer_count
from jaxroof.training.communication import data_parallel_time
from jaxroof.training.passes import backward_pass, forward_pass
from jaxroof.training.schedules import chunked_passes, schedule_code
from jaxroof.training.state import buckets
from tests.hand import check

TRAINING = Training(global_batch=8.0, seq=1000.0)


@pytest.mark.parametrize(
    ("trained", "copies", "expected"),
    [
        (8e9, 8.0, 200.0),  # 40 million parameters each
        (8e9, 256.0, 31.25),  # a million per copy: 256 million each
        (1e6, 8.0, 1.0),
    ],
)
def test_buckets_of_gradients(dense, trained, copies, expected):
    found = buckets(dense, Deployment(), dataclasses.replace(TRAINING, zero=1.0), trained, copies)
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_sharded_weights_are_gathered_by_layer(dense):
    found = buckets(dense, Deployment(), dataclasses.replace(TRAINING, zero=3.0), 8e9, 8.0)
    assert float(found) == float(layer_count(dense))


def test_passes_between_first_and_last_chunk():
    """8 stages of 8 chunks: groups of 8 micro-batches go through 7 of 8 chunks after the first chunk is through with
    them, 7 passes, and one micro-batch through the last chunk, 1/8.
    """
    assert chunked_passes(8.0, 8.0) == 7.125
    assert chunked_passes(1.0, 8.0) == 1.0


def test_gradients_hide_behind_several_passes():
    """3 s of messages behind one backward pass of 1 s, and behind 2.5 s of them."""
    sums = {"dp_all_reduce": 3.0, "dp_reduce_scatter": 0.0, "dp_all_gather": 0.0}
    for last, expected in ((None, 2.0), (2.5, 0.5)):
        exposed, hidden = data_parallel_time(sums, TRAINING, 4.0, 0.5, 1.0, last=last)
        assert float(exposed) == pytest.approx(expected, rel=0.05)
        assert float(exposed + hidden["last backward"]) == pytest.approx(3.0) and float(sum(hidden.values())) <= 3.0


def test_gathers_of_quantised_tokens(dense):
    """1000 tokens: 2 B per element are reduced, 1 B gathered, forward and back. Each of 2 devices quantises 500 rows of
    what is gathered.
    """
    low = Deployment(tp=2.0, sequence_parallel=True, gather_bytes=1.0)
    forward = forward_pass(dense, low, TRAINING)
    backward = backward_pass(forward, TRAINING).layers
    size = 1000.0 * float(dense.hidden)
    check(forward.layers["attention_reduce_scatter"], message_bytes=2 * size)
    check(forward.layers["attention_all_gather"], message_bytes=size)
    assert backward["attention_reduce_scatter_backward"].operation == "all_gather"
    check(backward["attention_reduce_scatter_backward"], message_bytes=size)
    check(backward["attention_all_gather_backward"], message_bytes=2 * size)


def test_interleaved_messages_run_beside_other_chunks(chip, dense):
    """Without overlap both directions wait; with it they hide, and the bubble alone still has them."""
    spread = Deployment(tp=1.0, pp=2.0)
    training = Training(global_batch=8.0, seq=1000.0, schedule=schedule_code("interleaved"), virtual_stages=2.0)
    late = dataclasses.replace(training, overlap=0.0)
    beside, waiting = (iteration_cost(chip, dense, spread, one, datasheet()) for one in (training, late))
    assert float(waiting.exposed["pp"]) > 0.0 and float(beside.exposed["pp"]) == pytest.approx(0.0, abs=1e-9)
    assert float(beside.hidden["pp"]) == pytest.approx(float(waiting.exposed["pp"]), rel=1e-6)
    assert float(beside.bubble) == pytest.approx(float(waiting.bubble), rel=1e-6)
    assert float(beside.contention) == pytest.approx(0.189 * float(beside.hidden["pp"]), rel=1e-6)
    assert float(waiting.contention) == 0.0


def test_kernels_around_adapters(dense):
    """Rank 8 on q: dropout reads and writes 1000 x 1000 inputs of 2 B and a mask of 1 B, the sum reads two results and
    writes one; k shares q's dropout.
    """
    lora = LoRA(rank=8.0, targets=("q", "k"), dropout=1.0)
    found = forward_pass(dense, Deployment(), dataclasses.replace(TRAINING, lora=lora)).layers
    inputs, outputs = 1000.0 * float(dense.hidden), found["lora_q_b"].shape.outputs * 1000.0
    check(found["lora_q_dropout"], bytes=5 * inputs)
    check(found["lora_q_sum"], bytes=6 * float(outputs))
    assert "lora_k_dropout" not in found and "lora_k_sum" in found
    none = dataclasses.replace(lora, dropout=0.0)
    quiet = forward_pass(dense, Deployment(), dataclasses.replace(TRAINING, lora=none)).layers
    check(quiet["lora_q_dropout"], kernels=0, bytes=0)
