"""Encoders, and decoders that look at them: what runs once per image or sound, and what in every step."""

import dataclasses

import pytest

from jaxroof import Attention, Block, Deployment, FeedForward, Requests, datasheet, decode, prefill, request_cost
from jaxroof.batch import Encode
from jaxroof.jobs.composition import decode_batch, prefill_batch
from jaxroof.memory.capacity import encoder_parameter_count, kv_bytes_of_sequence, parameter_count, weight_bytes
from jaxroof.model import Encoder, Projection
from jaxroof.step.forward import step_ops
from tests.hand import EXACT, check

EIGHT_IMAGES = Encode(sequences=8.0, tokens=8 * 40.0)


@pytest.fixture(scope="module")
def encoder(bf16) -> Encoder:
    """Two layers of 4 heads of 50 on vectors of 200, patches of 588 numbers, four of which become one vector."""
    attention = Attention(
        heads=4.0,
        kv_heads=4.0,
        head_dim=50.0,
        value_dim=50.0,
        window=None,
        causal=False,
        qkv=bf16,
        output=bf16,
    )
    layer = FeedForward(intermediate=800.0, up_projections=1.0, up=bf16, down=bf16)
    return Encoder(
        hidden=200.0,
        blocks=(Block(count=2.0, attention=attention, feedforward=layer, other_parameters=100.0),),
        inputs=588.0,
        merged=4.0,
        projector=(
            Projection(inputs=800.0, outputs=800.0, weights=bf16),
            Projection(inputs=800.0, outputs=1000.0, weights=bf16),
        ),
        embedding=bf16,
        other_parameters=500.0,
    )


@pytest.fixture(scope="module")
def seeing(dense, encoder):
    return dataclasses.replace(dense, encoder=encoder)


@pytest.fixture(scope="module")
def listening(dense, attention, encoder):
    """`dense` with cross-attention to an encoder whose every output is a vector of its own."""
    block = dataclasses.replace(dense.blocks[0], cross=attention)
    return dataclasses.replace(dense, blocks=(block,), encoder=dataclasses.replace(encoder, merged=1.0, projector=()))


def encoding(model, split=None, images=EIGHT_IMAGES, encoded=10.0):
    batch = dataclasses.replace(prefill(8.0, 30.0), encode=images, encoded=encoded)
    return step_ops(model, split or Deployment(), batch)


def test_encoder(seeing):
    """8 images of 40 patches: 320 rows, and 40 x 40 pairs in each."""
    ops = encoding(seeing)
    check(ops["encoder.embedding"], count=1, matrix_flops=2 * 320 * 588 * 200)
    check(ops["encoder.qkv_proj"], count=2, matrix_flops=2 * 320 * 200 * 600)
    check(ops["encoder.prefill_attention"], count=2, matrix_flops=2 * 8 * 1600 * 4 * 100, exps=8 * 1600 * 4)
    check(ops["encoder.up_proj"], matrix_flops=2 * 320 * 200 * 800)
    # four patches side by side are one row of 800
    check(ops["encoder.projector_0"], count=1, matrix_flops=2 * 80 * 800 * 800)
    check(ops["encoder.projector_1"], matrix_flops=2 * 80 * 800 * 1000)
    # the decoder's prompts count their images' vectors already
    check(ops["qkv_proj"], matrix_flops=2 * 240 * 1000 * 1400)
    names = list(ops)
    assert names[0] == "encoder.embedding" and names.index("encoder.projector_1") + 1 == names.index("embedding")


@pytest.mark.parametrize(("kind", "pairs"), [("sliding", 40 * 11), ("chunked", 40 * 5)])
def test_windows_of_an_encoder(seeing, encoder, kind, pairs):
    """A window of 5 to both sides, 11 with the token itself; or chunks of 5."""
    block = encoder.blocks[0]
    local = dataclasses.replace(block.attention, window=5.0, window_kind=kind)
    blocks = (dataclasses.replace(block, attention=local),)
    model = dataclasses.replace(seeing, encoder=dataclasses.replace(encoder, blocks=blocks))
    check(encoding(model)["encoder.prefill_attention"], exps=8 * pairs * 4)


def test_an_encoder_runs_only_where_there_is_something_to_encode(seeing):
    for batch in (prefill(8.0, 30.0), decode(8.0, 30.0)):
        assert not [name for name in step_ops(seeing, Deployment(), batch) if name.startswith("encoder.")]


def test_words_are_looked_up(seeing, encoder):
    ops = encoding(dataclasses.replace(seeing, encoder=dataclasses.replace(encoder, inputs=None)))
    assert ops["encoder.embedding"].kind == "elementwise"
    check(ops["encoder.embedding"], bytes=320 * 400 * 2)


def test_parameters(seeing, encoder, dense):
    # 588 x 200; two layers of 200 x 600 + 200 x 200 + 2 x 200 x 800 and 100; 800 x 800 + 800 x 1000; 500 others
    count = 117_600 + 2 * (120_000 + 40_000 + 320_000 + 100) + 640_000 + 800_000 + 500
    assert encoder_parameter_count(seeing) == count
    assert parameter_count(seeing) == parameter_count(dense)
    more = float(weight_bytes(seeing, Deployment())) - float(weight_bytes(dense, Deployment()))
    assert more == pytest.approx(2 * count, rel=1e-5)  # a difference of float32 numbers 35 times as large


def test_an_encoder_is_split_over_tp_and_whole_under_cp(seeing):
    whole, heads, prompts = (encoding(seeing, split) for split in (None, Deployment(tp=2.0), Deployment(cp=2.0)))
    for name in ("encoder.qkv_proj", "encoder.up_proj", "encoder.prefill_attention"):
        check(heads[name], matrix_flops=float(whole[name].matrix_flops) / 2)
        check(prompts[name], matrix_flops=float(whole[name].matrix_flops))
    check(heads["encoder.embedding"], matrix_flops=float(whole["encoder.embedding"].matrix_flops))
    check(heads["encoder.attention_all_reduce"], count=2, message_bytes=320 * 200 * 2)
    assert "encoder.context_exchange" not in prompts and "context_exchange" in prompts


def test_cross_attention(listening):
    """8 prompts of 30 tokens look at 40 vectors each: keys and values of 320 are projected once, and read always."""
    ops = encoding(listening, encoded=40.0)
    check(ops["cross_q_proj"], count=4, matrix_flops=2 * 240 * 1000 * 1000)
    check(ops["cross_kv_proj"], matrix_flops=2 * 320 * 1000 * 400)
    check(ops["cross_prefill_attention"], kernels=1, matrix_flops=240 * 40 * 4000)
    check(ops["cross_prefill_attention"], bytes=2 * (320 * 400 + 240 * 2000))
    check(ops["cross_o_proj"], matrix_flops=2 * 240 * 1000 * 1000)
    check(ops["cross_norm"], bytes=240 * 4000 * 2)
    step = step_ops(listening, Deployment(), dataclasses.replace(decode(8.0, 31.0), encoded=40.0))
    assert "cross_kv_proj" not in step
    check(step["cross_decode_attention"], kernels=2, matrix_flops=320 * 4000, bytes=2 * (320 * 400 + 8 * 2000))


def test_cross_attention_under_a_split_prompt(listening):
    """Two devices have half of the prompts' tokens each, and all of the encoder's output."""
    ops = encoding(listening, Deployment(cp=2.0), encoded=40.0)
    check(ops["cross_q_proj"], matrix_flops=2 * 120 * 1000 * 1000)
    check(ops["cross_prefill_attention"], matrix_flops=120 * 40 * 4000, bytes=2 * (320 * 400 + 120 * 2000))


def test_merged_vectors_are_what_cross_attention_projects(listening, encoder):
    """Four patches make one vector: of 320 patches 80 rows."""
    model = dataclasses.replace(listening, encoder=encoder)
    check(encoding(model)["cross_kv_proj"], matrix_flops=2 * 80 * 1000 * 400)


def test_cache_of_cross_attention(listening):
    # own cache 4 layers x 2 x 200 x 2 B per token, and as much per encoder output
    assert float(kv_bytes_of_sequence(listening, Deployment(), 100.0, 40.0)) == 140 * 3200


def test_steps_of_a_request(seeing, chip):
    """The prompts' step encodes, later ones do not; images cost TTFT only."""
    work = Requests(batch=8.0, isl=30.0, osl=10.0, cached=0.0, encoder_tokens=40.0)
    step = prefill_batch(work, seeing, Deployment())
    assert (float(step.encode.tokens), float(step.encode.sequences), float(step.encoded)) == (320, 8, 10)
    assert decode_batch(work, seeing, Deployment()).encode is None
    words = dataclasses.replace(work, encoder_tokens=None)
    with_images, without = (request_cost(chip, seeing, Deployment(), asked, datasheet()) for asked in (work, words))
    assert float(with_images.ttft) > float(without.ttft)
    assert float(with_images.tpot) == pytest.approx(float(without.tpot), rel=EXACT)


def test_a_model_that_does_not_generate(seeing):
    ops = encoding(dataclasses.replace(seeing, generates=False))
    assert not {"head", "sample", "head_all_gather"} & set(ops) and "final_norm" in ops
