"""Every catalogue entry loads with the published parameter count, or is refused by name with its reason."""

import csv
import pathlib
import re

import pytest

import workloads
from jaxroof.memory import active_parameter_count, parameter_count
from workloads.catalogue import catalogue, matched

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
}

ACTIVE = {
    # Billions per token, model cards: Mixtral arXiv:2401.04088; gpt-oss arXiv:2508.10925 table 1, whose 5.13
    # leaves the 0.58 of the embedding out; Qwen3 arXiv:2505.09388 table 2.
    "Mixtral-8x7B": (12.9, 0.01),
    "gpt-oss-120b": (5.13 + 0.58, 0.01),
    "Qwen3-235B-A22B": (22.0, 0.01),
    "Llama-4-Maverick-17B-128E": (17.0, 0.02),
}

LATENT = "multi-head latent attention"
INDEXER = "sparse attention with an indexer"
DELTA_NET = r"linear attention \(gated delta net\)"
REFUSED = {
    "DeepSeek-V2-Lite": LATENT,
    "DeepSeek-V3": LATENT,
    "DeepSeek-R1": LATENT,
    "DeepSeek-V3.2": f"{LATENT} and {INDEXER}",
    "DeepSeek-V4-Flash": f"compressed sparse attention and {INDEXER}",
    "DeepSeek-V4-Pro": f"compressed sparse attention and {INDEXER}",
    "Kimi-K2": LATENT,
    "Kimi-K2.5": LATENT,
    "Kimi-K3": rf"{LATENT} and linear attention \(Kimi delta attention\)",
    "GLM-5": f"{LATENT} and {INDEXER}",
    "GLM-5.2-FP8": f"{LATENT} and {INDEXER}",
    "Qwen3-Next-80B-A3B": DELTA_NET,
    "Qwen3.5-27B": DELTA_NET,
    "Qwen3.5-35B-A3B": DELTA_NET,
    "Qwen3.5-122B-A10B": DELTA_NET,
    "Qwen3.5-397B-A17B": DELTA_NET,
    "MiniMax-M3": "block-sparse attention",
    "Nemotron-3-Nano-30B-A3B": r"state-space \(Mamba\) layers",
    "Nemotron-H-56B": r"state-space \(Mamba\) layers",
    "Gemma-4-26B-A4B": "global layers whose values are their keys",
    "Gemma-4-31B": "global layers whose values are their keys",
    "Step-3.7-Flash": "head-wise attention gates",
}


@pytest.mark.parametrize("name", workloads.names())
def test_every_entry_loads_or_is_refused_by_name(name):
    if name in REFUSED:
        with pytest.raises(ValueError, match=rf"^{re.escape(name)} \(\w+\): needs {REFUSED[name]}.*: not covered yet$"):
            workloads.model(name)
        return
    entry = workloads.model(name)
    assert entry.name == name
    assert entry.precision and entry.precision_source
    assert entry.max_position > 0
    assert sum(block.count for block in entry.model.blocks) > 0
    if entry.published_parameters is not None:
        # 0.5 %: published figures are rounded for some, and count FP8 scales for others.
        assert parameter_count(entry.model) == pytest.approx(entry.published_parameters, rel=5e-3)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_count_is_the_published_one_exactly(name):
    assert parameter_count(workloads.model(name).model) == PUBLISHED[name]


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_agree_with_the_model_card(name):
    billions, tolerance = ACTIVE[name]
    assert active_parameter_count(workloads.model(name).model) == pytest.approx(billions * 1e9, rel=tolerance)


def test_parameter_table_against_the_reference():
    """All 56 reference rows: within 1 % where read, else refused by name. Prints the table (pytest -s)."""
    if not REFERENCE.exists():
        pytest.skip(f"the reference table {REFERENCE.name} is not beside this checkout")
    with REFERENCE.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 56
    read, refused, wrong = 0, 0, []
    for row in rows:
        try:
            entry = workloads.model(row["model"])
        except ValueError as error:
            assert "not covered yet" in str(error), error
            print(f"{row['model']:32} {'':>10} {row['params_est_B'] or '-':>10}  {error}")
            refused += 1
            continue
        billions = float(parameter_count(entry.model)) / 1e9
        read += 1
        # MiMo-V2-Flash has no figure in its row; its publisher says 309 billion.
        expected = float(row["params_est_B"] or entry.published_parameters / 1e9)
        deviation = billions / expected - 1.0
        print(f"{row['model']:32} {billions:10.3f} {expected:10.3f}  {deviation:+.3%}")
        if abs(deviation) > 0.01:
            wrong.append((row["model"], billions, expected))
        assert entry.model.hidden == float(row["hidden"])
        assert sum(block.count for block in entry.model.blocks) == float(row["layers"])
        assert entry.model.vocabulary == float(row["vocab"])
    assert wrong == []
    assert (read, refused) == (34, 22)


def test_reference_kv_bytes_per_token():
    """KV bytes per token of full and of windowed layers at 2 B per element, against every row that is read."""
    if not REFERENCE.exists():
        pytest.skip(f"the reference table {REFERENCE.name} is not beside this checkout")
    with REFERENCE.open() as file:
        rows = [row for row in csv.DictReader(file) if row["kv_bytes_tok_full_bf16"]]
    compared = 0
    for row in rows:
        try:
            blocks = workloads.model(row["model"]).model.blocks
        except ValueError:
            continue
        totals = {True: 0.0, False: 0.0}
        for block in blocks:
            a = block.attention
            totals[a.window is not None] += block.count * a.kv_heads * (a.head_dim + a.value_dim) * 2.0
        assert totals[False] == float(row["kv_bytes_tok_full_bf16"]), row["model"]
        assert totals[True] == float(row["kv_bytes_tok_window_bf16"]), row["model"]
        compared += 1
    assert compared == 34


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

    for name in ("gpt-oss-20b", "Llama-4-Scout-17B-16E", "Qwen1.5-MoE-A2.7B", "GPT-2"):
        assert all(type(leaf) is float for leaf in jax.tree.leaves(workloads.model(name).model))
