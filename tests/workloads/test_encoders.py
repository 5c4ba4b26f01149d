"""Encoders by their published sizes, tokens of images worked by hand, and models of an encoder and a decoder."""

import json

import pytest

import workloads
from jaxroof.memory.capacity import encoder_parameter_count
from workloads import ImageTokens, encoder_tokens

PUBLISHED = {
    # Parameters of encoder and projector: the sum over the weight files less the language model's.
    "Qwen2.5-VL-7B": 676_550_144,
    "Qwen3-VL-8B": 8_767_123_696 - 8_190_735_360,
    "Qwen3-VL-4B": 4_437_815_808 - 4_022_468_096,
    "Whisper-large-v3": 636_968_960,
}


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("name", PUBLISHED)
def test_encoder_parameters_are_the_published_ones(name):
    assert encoder_parameter_count(workloads.model(name).model) == PUBLISHED[name]


@pytest.mark.parametrize(
    ("name", "billions", "tolerance"),
    [
        # SigLIP-so400m's vision tower has 0.413 without its pooling head; the rest are positions at 896 pixels, 3.5
        # million, and the projection, 6.2: arXiv:2503.19786, table 1, says 0.417.
        ("Gemma-3-27B", 0.417 + 0.0062, 0.001),
        # "a vision encoder of about 550 million parameters", model card.
        ("Gemma-4-31B", 0.55, 0.03),
        # "MoonViT, 400M", model card of Kimi K2.5; the projector has 0.054 more.
        ("Kimi-K2.5", 0.4 + 0.054, 0.02),
        # CLIP ViT-L/14 has 0.304 in 24 layers, of which 23 run, 12.6 million each; the projector has 21 million.
        ("LLaVA-1.5-7B", 0.3035 - 0.0126 + 0.021, 0.001),
    ],
)
def test_encoder_parameters_agree_with_what_is_said_of_them(name, billions, tolerance):
    assert encoder_parameter_count(workloads.model(name).model) / 1e9 == pytest.approx(billions, abs=tolerance)


def test_layers_see_all_of_an_image_or_windows_of_it():
    encoder = workloads.model("Qwen2.5-VL-7B").model.encoder
    found = {(b.attention.window, b.attention.window_kind, b.attention.causal): b.count for b in encoder.blocks}
    # 112 / 14 = 8 patches a side in all but four of 32 layers.
    assert found == {(None, None, False): 4.0, (64.0, "chunked", False): 28.0}
    assert (encoder.inputs, encoder.merged, encoder.hidden) == (3 * 2 * 14 * 14, 4.0, 1280.0)
    assert [(p.inputs, p.outputs) for p in encoder.projector] == [(5120.0, 5120.0), (5120.0, 3584.0)]


def test_outputs_of_earlier_layers_have_projectors_of_their_own():
    projector = workloads.model("Qwen3-VL-8B").model.encoder.projector
    assert [(p.inputs, p.outputs) for p in projector] == [(4608.0, 4608.0), (4608.0, 4096.0)] * 4


@pytest.mark.parametrize(
    ("name", "width", "height", "encoder", "language"),
    [
        # 1036 = 37 x 28: 74 x 74 patches, 4 to a token.
        ("Qwen2.5-VL-7B", 1036, 1036, 5476, 1369),
        # 1000 / 28 = 35.7 and 700 / 28 = 25: 36 x 25 tokens.
        ("Qwen2.5-VL-7B", 1000, 700, 3600, 900),
        # 32 x 32 pixels are fewer than 3136: scaled by 1.75 to 56 x 56.
        ("Qwen2.5-VL-7B", 32, 32, 16, 4),
        # 1024 / 32 = 32 a side.
        ("Qwen3-VL-8B", 1024, 1024, 4096, 1024),
        # 128 x 128 pixels are fewer than 65536: scaled to 256 x 256.
        ("Qwen3-VL-8B", 128, 128, 256, 64),
        # Every image is 896 x 896: 64 x 64 patches, 16 to a token.
        ("Gemma-3-27B", 3000, 200, 4096, 256),
        # 2520 patches of 16 x 16 at most: 803.2 a side, 16 x 48 = 768; 48 x 48 patches, 9 to a token.
        ("Gemma-4-31B", 1024, 1024, 2304, 256),
        # 336 x 336 alone; with a class token in the encoder only.
        ("LLaVA-1.5-7B", 640, 480, 577, 576),
        # 300 x 300 fits one tile: 576 patches and a class token, 4 patches to a token.
        ("Llama-4-Scout-17B-16E", 300, 300, 577, 144),
        # 672 x 336 is two tiles exactly, and the whole image once more.
        ("Llama-4-Scout-17B-16E", 672, 336, 3 * 577, 3 * 144),
        # 1540 x 770: 55 x 28 (27.5, rounded up) merged patches; a mark after each of 28 rows.
        ("Mistral-Small-3.1-24B", 3080, 1540, 55 * 28 * 4, 28 * 56),
        # 1344 x 900 is nearest to 3 : 2 in shape: six tiles and the whole image, 1025 in the encoder and 256 outside.
        ("InternVL3-8B", 1344, 900, 7 * 1025, 7 * 256),
        # 448 x 448 is one tile.
        ("InternVL3-8B", 448, 448, 1025, 256),
        # 1000 / 28 is padded to 36.
        ("Kimi-K2.5", 1000, 1000, 72 * 72, 36 * 36),
    ],
)
def test_tokens_of_an_image(name, width, height, encoder, language):
    count = encoder_tokens(workloads.model(name).images, width, height)
    assert (count.encoder, count.language) == (float(encoder), float(language))


@pytest.mark.parametrize("name", ["Qwen2.5-VL-7B", "Qwen3-VL-8B", "Gemma-4-31B", "Kimi-K2.5", "Mistral-Small-3.1-24B"])
def test_no_image_exceeds_the_limits_and_every_one_has_tokens(name):
    images = workloads.model(name).images
    largest = encoder_tokens(images, 20_000, 20_000).encoder
    for width, height in ((1, 1), (1, 200), (150, 1), (5000, 30), (20_000, 15_000)):
        count = encoder_tokens(images, width, height)
        assert 0 < count.language <= count.encoder <= 1.05 * largest


def test_images_that_are_none():
    images = ImageTokens(rule="fixed", patch=14, side=336)
    with pytest.raises(ValueError, match="an image of 0 x 3 pixels; both sides must be at least 1"):
        encoder_tokens(images, 0, 3)
    with pytest.raises(ValueError, match="its sides may differ by a factor of 200"):
        encoder_tokens(images, 201, 1)


def test_a_config_without_its_vision_config_is_the_language_model_alone(tmp_path):
    config = dict(workloads.catalogue()["Qwen3-VL-8B"].config)
    del config["vision_config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    entry = workloads.model(str(tmp_path))
    assert entry.model.encoder is None and entry.images is None
    assert any("no vision_config" in note for note in entry.notes)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("depth", 0, "vision_config: depth is 0; it must be a positive integer"),
        ("num_heads", 7, "vision_config: num_heads is 7; it must divide the width 1152"),
        ("deepstack_visual_indexes", [99], "deepstack_visual_indexes is [99]; it must be a list of layer indices"),
    ],
)
def test_encoder_keys_that_are_wrong(tmp_path, key, value, says):
    config = dict(workloads.catalogue()["Qwen3-VL-8B"].config)
    config["vision_config"] = config["vision_config"] | {key: value}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError) as caught:
        workloads.model(str(tmp_path))
    assert says in str(caught.value)


def test_encoder_only_models_see_both_ways_and_generate_nothing():
    entry = workloads.model("BERT-base")
    model = entry.model
    assert (model.generates, model.untied, model.encoder) == (False, 0.0, None)
    assert {b.attention.causal for b in model.blocks} == {False}
    # 512 positions, 2 token types, the embedding's norm with its bias, and the pooler.
    assert model.other_parameters == 514 * 768 + 2 * 768 + 768 * 768 + 768
    windows = {b.attention.window: b.count for b in workloads.model("ModernBERT-base").model.blocks}
    assert windows == {None: 8.0, 128.0: 14.0}  # layers 0, 3, ... 21 of 22 see everything


def test_whisper_encodes_sound_and_crosses_to_it():
    entry = workloads.model("Whisper-large-v3")
    encoder, [block] = entry.model.encoder, entry.model.blocks
    # Three spectra of 128 and three hidden vectors of 1280: what the two convolutions look at.
    assert (encoder.inputs, encoder.merged, entry.encoder_positions) == (3 * (128 + 1280), 1.0, 1500)
    assert (block.attention.causal, block.cross.causal, block.count) == (True, False, 32.0)
    # Three norms and a feed-forward with biases, twice a bias of queries, values and outputs, none of keys.
    assert block.other_parameters == 1280 * (6 + 6 + 1) + 5120


def test_t5_looks_words_up_and_has_heads_of_a_width_of_their_own():
    model = workloads.model("Flan-T5-XL").model
    assert model.encoder.inputs is None and model.untied == 1.0
    assert (model.blocks[0].cross.head_dim, model.blocks[0].feedforward.up_projections) == (64.0, 2.0)
    assert workloads.model("T5-large").model.blocks[0].feedforward.up_projections == 1.0


def test_an_encoder_may_stand_before_a_language_model_of_any_family(tmp_path):
    config = dict(workloads.catalogue()["Mistral-Small-3.1-24B"].config)
    inner = {"model_type": "qwen3", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4}
    inner |= {"num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "vocab_size": 100}
    (tmp_path / "config.json").write_text(json.dumps(config | {"text_config": inner}))
    model = workloads.model(str(tmp_path)).model
    assert model.blocks[0].attention.qk_norm == 1.0 and model.encoder.projector[-1].outputs == 64.0
    (tmp_path / "config.json").write_text(json.dumps(config | {"text_config": inner | {"model_type": "odd"}}))
    with pytest.raises(ValueError, match="text_config of model_type 'odd' is not covered yet inside mistral3"):
        workloads.model(str(tmp_path))


def test_an_encoder_and_a_decoder_are_stored_alike():
    model = workloads.model("BART-large", weights="int8").model
    [decoder], [encoder] = model.blocks, model.encoder.blocks
    assert {decoder.cross.qkv.bytes, decoder.feedforward.up.bytes, encoder.attention.output.bytes} == {1.0}
    assert model.embedding.bytes == 2.0
