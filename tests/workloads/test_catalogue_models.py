"""Every catalogue entry loads with the published parameter count, active parameters and cache."""

import csv
import pathlib

import pytest

import workloads
from jaxroof import Deployment
from jaxroof.layers.attention import Attention
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.memory.capacity import (
    active_parameter_count,
    encoder_parameter_count,
    kv_bytes_per_token,
    parameter_count,
    prediction_parameter_count,
    state_bytes_of_sequence,
)
from jaxroof.model import expert_layers
from workloads.models.catalogue import _files_with, _index, _loose_index, _texts, catalogue, collapsed, matched
from workloads.precisions.quantization import Quantization

pytestmark = pytest.mark.usefixtures("float64")  # counts beyond 2**24 are compared exactly

REFERENCE = pathlib.Path(__file__).parents[2].parent / "shared" / "reference" / "models.csv"

PUBLISHED = {
    # The sum over the weight files of the repository in `source`, where those are unquantised.
    "Llama-2-7B": 6_738_415_616,
    "Llama-2-70B": 68_976_648_192,
    "Llama-3.1-8B": 8_030_261_248,
    "Llama-3.1-70B": 70_553_706_496,
    "Llama-3.1-405B": 405_853_388_800,
    "CodeLlama-34B": 33_743_970_304,
    "Mistral-Nemo-12B": 12_247_782_400,
    "Mixtral-8x7B": 46_702_792_704,
    "Mixtral-8x22B": 140_620_634_112,
    "Qwen2.5-7B": 7_615_616_512,
    "Qwen3-32B": 32_762_123_264,
    "Qwen3-30B-A3B": 30_532_122_624,
    "Qwen3-235B-A22B": 235_093_634_560,
    "Qwen1.5-MoE-A2.7B": 14_315_784_192,
    "gpt-oss-120b": 116_829_156_672,
    "Gemma-2-27B": 27_227_128_320,
    "Phi-4": 14_659_507_200,
    "GPT-2-XL": 1_557_611_200,
    "OPT-13B": 12_853_473_280,
    "InternLM2-20B": 19_861_149_696,
    "OLMoE-1B-7B": 6_919_161_856,
    "Command-R-Plus": 103_810_674_688,
    "ERNIE-4.5-21B-A3B": 21_825_437_888,
    "DeepSeek-V2-Lite": 15_706_484_224,
    "DeepSeek-V2": 235_741_434_880,
    "Kimi-Linear-48B-A3B": 49_122_681_728,
    "Llama-3.3-Nemotron-Super-49B": 49_867_145_216,
    "Mamba2-2.7B": 2_702_599_680,
    "GPT-J-6B": 6_050_882_784,
    "Falcon-40B": 41_303_293_952,
    "Phi-2": 2_779_683_840,
    "MPT-7B": 6_649_286_656,
    "BLOOM-176B": 176_247_271_424,
    "StarCoder": 15_517_456_384,
    "DBRX": 131_596_523_520,
    "GLM-4-9B": 9_399_951_360,
    "Phi-3.5-MoE": 41_873_153_344,
    "Seed-OSS-36B": 36_151_104_512,
    "EXAONE-3.5-7.8B": 7_818_448_896,
    "Command-A": 111_057_580_032,
    "BERT-base": 109_482_240,
    "RoBERTa-large": 355_359_744,
}

WITH_ENCODER = {
    # The sum over all weight files: language model, encoder and projector.
    "Whisper-large-v3": 1_543_490_560,
    "T5-large": 737_668_096,
    "Flan-T5-XL": 2_849_757_184,
    "BART-large": 406_291_456,
    "Qwen2.5-VL-7B": 8_292_166_656,
    "Qwen2-VL-7B": 8_291_375_616,
    "Gemma-3-4B": 4_300_079_472,
    "Gemma-3-12B": 12_187_325_040,
    "Gemma-3-27B": 27_432_406_640,
    "Mistral-Small-3.1-24B": 24_011_361_280,
    "InternVL3-8B": 7_944_373_760,
    "Llama-4-Scout-17B-16E": 108_641_793_536,
    "Llama-4-Maverick-17B-128E": 401_583_781_376,
    "LLaVA-1.5-7B": 7_063_427_072 - 12_596_224,  # less the encoder's last layer, which is not run
}

ROUNDED = {
    # Billions as the publisher rounds them, and half a unit of the last digit: model cards and announcements.
    "DeepSeek-V4-Pro": (1600.0, 50.0),
    "Kimi-K3": (2800.0, 50.0),
    "Nemotron-H-56B": (56.0, 0.5),
    "Nemotron-3-Super-120B-A12B": (120.0, 1.0),  # 120.7 in the table of its card
    "Gemma-4-26B-A4B": (25.2, 0.05),
    "Gemma-4-31B": (30.7, 0.05),
    "Qwen3-Next-80B-A3B": (80.0, 0.5),
    "GLM-4.7-Flash": (30.0, 0.6),
    "Bamba-9B": (9.8, 0.05),
    "Granite-4.0-H-Small": (32.0, 0.5),
}

ACTIVE = {
    # Billions per token, model cards: Mixtral arXiv:2401.04088; gpt-oss arXiv:2508.10925 table 1, whose 5.13
    # leaves the 0.58 of the embedding out; Qwen3 arXiv:2505.09388 table 2.
    "Mixtral-8x7B": (12.9, 0.01),
    "gpt-oss-120b": (5.13 + 0.58, 0.01),
    "Qwen3-235B-A22B": (22.0, 0.01),
    "Llama-4-Maverick-17B-128E": (17.0, 0.02),
    # arXiv:2412.19437, section 4.2, whose 37 leaves the 0.93 of the embedding out; arXiv:2507.20534, table 2.
    "DeepSeek-V3": (37.0 + 0.93, 0.015),
    "Kimi-K2": (32.6, 0.01),
    # Model cards: 13 and 49 of DeepSeek-V4, with the embedding's 0.53 and 0.93 beside; 23 of MiniMax-M3 likewise.
    "DeepSeek-V4-Flash": (13.0 + 0.53, 0.03),
    "DeepSeek-V4-Pro": (49.0 + 0.93, 0.01),
    "Nemotron-3-Nano-30B-A3B": (3.6, 0.01),
    "Gemma-4-26B-A4B": (3.8, 0.01),
}


@pytest.mark.parametrize("name", workloads.names())
def test_every_entry_loads(name):
    entry = workloads.model(name)
    assert entry.name == name
    assert entry.precision and entry.precision_source
    assert entry.max_position is None or entry.max_position > 0
    assert sum(block.count for block in entry.model.blocks) > 0
    if entry.published_parameters is not None:
        counted = parameter_count(entry.model)
        if entry.model.encoder is not None and entry.images is None:
            counted += encoder_parameter_count(entry.model)  # of an encoder-decoder, the whole is published
        # 0.5 %: published figures are rounded for some, and count FP8 scales for others.
        assert counted == pytest.approx(entry.published_parameters, rel=5e-3)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_count_is_the_published_one_exactly(name):
    assert parameter_count(workloads.model(name).model) == PUBLISHED[name]


@pytest.mark.parametrize("name", WITH_ENCODER)
def test_parameter_count_with_the_encoder_is_the_published_one_exactly(name):
    model = workloads.model(name).model
    assert parameter_count(model) + encoder_parameter_count(model) == WITH_ENCODER[name]


@pytest.mark.parametrize("name", ROUNDED)
def test_parameter_count_rounds_to_the_published_one(name):
    billions, tolerance = ROUNDED[name]
    assert parameter_count(workloads.model(name).model) / 1e9 == pytest.approx(billions, abs=tolerance)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        # 684.5 in the weight files, which hold embedding and head a second time: 2 x 129280 x 7168 = 1.853.
        ("DeepSeek-V3", 684.53 - 1.853 - 671.026),
        # The card of Step-3.5-Flash: 0.81 beside the backbone's 196.
        ("Step-3.7-Flash", 0.84),
    ],
)
def test_multi_token_prediction_is_counted_apart(name, billions):
    # 1 %: both cards round to 0.01 billion.
    assert prediction_parameter_count(workloads.model(name).model) / 1e9 == pytest.approx(billions, rel=1e-2)


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_agree_with_the_model_card(name):
    billions, tolerance = ACTIVE[name]
    assert active_parameter_count(workloads.model(name).model) == pytest.approx(billions * 1e9, rel=tolerance)


@pytest.fixture(scope="module")
def reference():
    """The rows of the reference table, or a skip where it is not beside this checkout."""
    if not REFERENCE.exists():
        pytest.skip(f"the reference table {REFERENCE.name} is not beside this checkout")
    with REFERENCE.open() as file:
        return list(csv.DictReader(file))


def test_parameter_table_against_the_reference(reference):
    """All 56 rows within 1 %. Prints the table (pytest -s): billions, active, cache per token, state."""
    assert len(reference) == 56
    wrong = []
    for row in reference:
        entry = workloads.model(row["model"])
        model = entry.model
        billions, active = (float(count(model)) / 1e9 for count in (parameter_count, active_parameter_count))
        # Rows without an estimate are held to their publishers' figures.
        rounded = ROUNDED.get(entry.name.removesuffix("-IT-NVFP4"), (None,))[0]
        expected = float(row["params_est_B"] or rounded or entry.published_parameters / 1e9)
        deviation, whole = billions / expected - 1.0, Deployment()
        cache, state = float(kv_bytes_per_token(model, whole)), float(state_bytes_of_sequence(model, whole))
        counts = f"{billions:10.3f} {expected:10.3f} {deviation:+.3%} {active:9.3f}"
        print(f"{row['model']:28} {counts} {cache:11.0f} {state:13.0f}")
        if abs(deviation) > (0.02 if not row["params_est_B"] else 0.01):
            wrong.append((row["model"], billions, expected))
        if row["active_est_B"]:
            # 2 %: the estimates leave the indexers of DeepSeek-V3.2 and GLM-5 out.
            assert active == pytest.approx(float(row["active_est_B"]), rel=0.025), row["model"]
        assert model.hidden == float(row["hidden"])
        assert sum(block.count for block in model.blocks) == float(row["layers"])
        assert model.vocabulary == float(row["vocab"])
    assert wrong == []


def test_reference_kv_bytes_per_token(reference):
    """KV bytes per token of full and of windowed layers at 2 B per element, without indexers and states."""
    rows = [row for row in reference if row["kv_bytes_tok_full_bf16"]]
    assert len(rows) == 54  # all but the two of DeepSeek-V4
    for row in rows:
        totals = {True: 0.0, False: 0.0}
        for block in workloads.model(row["model"]).model.blocks:
            mixer = block.attention
            if isinstance(mixer, Attention):
                width = mixer.kv_heads * (mixer.head_dim + mixer.value_dim)
                totals[mixer.window is not None] += block.count * width * 2.0
            elif isinstance(mixer, LatentAttention):
                totals[False] += block.count * (mixer.latent + mixer.rope_dim) * 2.0
        assert totals[False] == float(row["kv_bytes_tok_full_bf16"]), row["model"]
        assert totals[True] == float(row["kv_bytes_tok_window_bf16"]), row["model"]


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("llama-2-7b-hf", "Llama-2-7B"),
        ("meta-llama/Llama-2-70b-hf", "Llama-2-70B"),
        ("LLAMA_3.1_8B_INSTRUCT", "Llama-3.1-8B"),
        ("meta-llama/Meta-Llama-3.1-8B", "Llama-3.1-8B"),
        ("codellama-34b-instruct-hf", "CodeLlama-34B"),
        ("mixtral-8x7b-v0-1", "Mixtral-8x7B"),
        ("mixtral-8x22b", "Mixtral-8x22B"),
        ("mistral-nemo-instruct-2407", "Mistral-Nemo-12B"),
        ("qwen25-7b-instruct", "Qwen2.5-7B"),
        ("Qwen/Qwen3-32B-FP8", "Qwen3-32B-FP8"),
        ("nvidia/Llama-3.1-8B-Instruct-FP8", "Llama-3.1-8B-Instruct-FP8"),
        ("opt-1-3b", "OPT-1.3B"),
        ("opt-13b", "OPT-13B"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
    ],
)
def test_names_are_matched_without_case_separators_and_owner(spelling, name):
    assert workloads.model(spelling).name == name


def test_an_owner_that_is_not_the_publisher_is_said_aloud():
    assert workloads.model("meta-llama/Llama-2-7b-hf").notes == ()
    assert "read as Llama-2-7B" in workloads.model("someone/Llama-2-7b-hf").notes[0]


def test_every_alias_means_one_model():
    spellings = [matched(alias) for entry in catalogue().values() for alias in {entry.name, *entry.aliases}]
    assert all(workloads.catalogue()[name].name == name for name in workloads.names())
    owned = [s for s in spellings if s not in {matched(name) for name in workloads.names()}]
    assert len(owned) == len(set(owned))


def test_every_number_of_a_model_is_a_float():
    import jax

    for name in workloads.names():
        assert all(type(leaf) is float for leaf in jax.tree.leaves(workloads.model(name).model))


def test_a_name_is_found_in_the_files_that_have_it_as_in_all():
    every = tuple(_texts())
    for entry in catalogue().values():
        for alias in (entry.name, *entry.aliases):
            files = _files_with(alias.rpartition("/")[2])
            assert len(files) < len(every)
            assert _index(files)[matched(alias)] == _index(every)[matched(alias)] == entry.name
            assert _loose_index(files).get(collapsed(alias)) == _loose_index(every).get(collapsed(alias))


def test_layers_read_once_are_those_read_one_by_one(monkeypatch):
    read = {name: workloads.model(name).model for name in workloads.names()}
    monkeypatch.setattr(Quantization, "numbered", lambda quantised, layer: True)
    assert all(workloads.model(name).model == model for name, model in read.items())


@pytest.mark.parametrize(("name", "groups", "reached"), [("DeepSeek-V3", 8.0, 4.0), ("Kimi-K2", None, None)])
def test_a_routers_limit_of_groups(name, groups, reached):
    """Source: deepseek-ai/DeepSeek-V3, config.json; of one group there is no limit."""
    (layer,) = expert_layers(workloads.model(name).model)
    assert (layer.groups, layer.reached_groups) == (groups, reached)
