"""Serving measurements as points: what labels are taken to say, which rows are refused, skipped or suspect."""

import csv
import functools
from collections import Counter
from pathlib import Path

import pytest

from jaxroof.deployment import degree
from sweeps.measure.validate.serving import forms
from sweeps.measure.validate.serving.precisions import labelled_model
from sweeps.measure.validate.serving.serving_points import points
from sweeps.measure.validate.serving.suspects import checked
from tests.serving_rows import DEEPSEEK, ROW, SMALL, read_rows

pytestmark = pytest.mark.xdist_group("points")

MEASURED = Path(__file__).parents[2].parent / "shared" / "measured" / "e2e" / "silicon_sample.csv"

GPT_OSS = {"model_path": "openai/gpt-oss-120b", "gemm_quant_mode": "nvfp4", "moe_quant_mode": "nvfp4"}
DISAGGREGATED = DEEPSEEK | {
    "mode": "disagg",
    "prefill_tp_size": "8",
    "prefill_num_workers": "2",
    "prefill_moe_tp_size": "1",
    "prefill_moe_ep_size": "8",
    "decode_tp_size": "1",
    "decode_num_workers": "3",
    "decode_attention_dp_size": "8",
    "decode_moe_tp_size": "1",
    "decode_moe_ep_size": "8",
    "decode_batch_size": "32",
}

APART = "it has pools of workers, which are not asked for"


@pytest.fixture
def read(tmp_path):
    """Points and skipped rows of a file with one row per mapping of what differs from ROW."""
    return functools.partial(read_rows, tmp_path)


def degrees(point):
    deployment = point.deployment
    return tuple(float(degree(getattr(deployment, name))) for name in ("tp", "attention_dp", "ep"))


def moe(tp, dp, width, ep, **others):
    return {"tp_size": tp, "attention_dp_size": dp, "moe_tp_size": width, "moe_ep_size": ep} | others


def test_row_becomes_a_point(read):
    (point,), skipped = read({})
    assert skipped == []
    assert (point.model_name, point.gpu, point.engine, point.family) == (
        "Llama-3.1-70B",
        "H200-SXM",
        "vllm",
        "inferencex",
    )
    assert (point.ttft, point.tpot) == (0.2, 0.012)
    assert (point.isl, point.osl, point.concurrency, point.requests) == (1024.0, 1024.0, 16.0, 160.0)
    assert point.spec.isl == "sglang-range:tokens=1024,ratio=0.8"
    assert point.deployment.kv_bytes == 1.0  # InferenceX's Llama runs on vLLM have an 8-bit cache
    assert degrees(point) == (4.0, 1.0, 1.0)
    assert point.suspect is None and not point.repaired


def test_engines_whose_host_works_beside_the_device(read):
    nvidia = SMALL | {"source_tag": "aic"}
    rows = [
        nvidia | {"backend": "vllm", "backend_version": "0.12.0"},
        nvidia | {"backend": "vllm", "backend_version": "0.14.1"},
        nvidia | {"backend": "vllm"},  # not recorded
        {"backend": "vllm"},  # InferenceX's scripts ask for it
        nvidia | {"backend": "trtllm", "backend_version": "1.0.0rc3"},
        nvidia | {"backend": "trtllm", "backend_version": "1.1.0"},
        nvidia | {"backend": "sglang", "backend_version": "0.5.6"},
    ]
    found, skipped = read(*rows)
    assert not skipped
    assert [bool(one.policy.hidden_host) for one in found] == [False, True, False, True, True, True, False]
    times = [one.case.scenario.efficiency.host.sequence_time for one in found]
    assert times[4] == pytest.approx(85e-6) and times[5] == pytest.approx(
        7.34e-6
    )  # the end of one server process, until 1.1


@pytest.mark.parametrize(
    "label, expected, repaired",
    [
        (moe(64, 1, 8, 8), (8.0, 1.0, 8.0), True),  # 64 = 8 x 8: eight devices, counted as tp x ep
        (moe(16, 1, 4, 4), (4.0, 1.0, 4.0), True),
        (moe(1, 64, 8, 8, batch_size="0.25"), (1.0, 8.0, 8.0), True),  # the same with data-parallel attention
        (moe(8, 1, 8, 1), (8.0, 1.0, 1.0), False),
        (moe(1, 8, 1, 8, batch_size="2"), (1.0, 8.0, 8.0), False),
        (moe(2, "", 4, 1), (2.0, 2.0, 1.0), True),  # experts on four devices, so attention in two groups of two
        (moe(4, "", 1, 1), (4.0, 1.0, 1.0), False),
    ],
)
def test_degrees_of_experts_are_consistent(read, label, expected, repaired):
    (point,), _ = read(DEEPSEEK | {"backend": "sglang"} | label)
    assert degrees(point) == expected
    assert point.suspect is None and point.repaired == repaired


def test_miscoded_degrees_are_those_of_inferencex_alone(read):
    (point,), _ = read(DEEPSEEK | moe(4, 1, 2, 2, source_tag="h200_sxm/trtllm/some.csv"))
    assert degrees(point) == (4.0, 1.0, 2.0)


def test_contradictory_labels_are_suspect(read):
    found, _ = read(
        DEEPSEEK | moe(8, 1, 2, 1),
        {"batch_size": "4.0"},
        {"concurrency": "", "batch_size": "8.0"},
    )
    assert [point.suspect for point in found] == [
        "experts on 2 devices, attention on 8",
        "16 clients in batches of 4 on 1 attention groups",
        "no number of clients",
    ]
    assert found[2].concurrency == 8.0


def test_scripts_of_2025_chose_expert_parallelism_themselves(read):
    found, _ = read(
        DEEPSEEK | moe(8, 1, 8, 1, backend_version=""),
        DEEPSEEK | moe(8, 1, 8, 1, backend_version="", isl_tokens="8192", concurrency="64", batch_size="64"),
        DEEPSEEK | moe(8, 1, 8, 1, backend_version="", gpu="b200_sxm", concurrency="8", batch_size="8"),
        DEEPSEEK | moe(8, 1, 8, 1, backend_version="", gpu="b200_sxm", concurrency="64", batch_size="64"),
        DEEPSEEK | moe(8, 1, 8, 1),
    )
    expected = [(8.0, 1.0, 8.0), (1.0, 8.0, 8.0), (8.0, 1.0, 1.0), (8.0, 1.0, 8.0), (8.0, 1.0, 1.0)]
    assert [degrees(point) for point in found] == expected
    assert [point.repaired for point in found] == [True, True, False, True, False]


@pytest.mark.parametrize(
    "label, precision, experts",
    [
        (("openai/gpt-oss-120b", "nvfp4", "nvfp4"), "mxfp4 (weights only)", ("bf16", True)),  # what the checkpoint is
        (("openai/gpt-oss-120b", "fp8", "fp8"), "mxfp4 (weights only)", ("bf16", True)),  # nobody expands weights
        (("deepseek-ai/DeepSeek-R1", "fp8", "fp8_block"), "fp8 (block 128x128)", ("fp8", False)),
        (("deepseek-ai/DeepSeek-R1", "nvfp4", "nvfp4"), "nvfp4", ("fp4", False)),
        (("deepseek-ai/DeepSeek-R1", "fp8_block", "nvfp4"), "fp8 (block 128x128), experts nvfp4", ("fp4", False)),
        (("Qwen/Qwen3.5-397B-A17B", "fp8", "fp8_block"), "fp8 (block 128x128)", ("fp8", False)),
        (("Qwen/Qwen3.5-397B-A17B", "bfloat16", "bfloat16"), "bf16", ("bf16", False)),
        (("moonshotai/Kimi-K2.5", "bfloat16", "int4_wo"), "w4a16 (compressed-tensors, group 32)", ("bf16", True)),
    ],
)
def test_precisions_that_labels_stand_for(label, precision, experts):
    entry = labelled_model(*label)
    up = entry.model.blocks[-1].feedforward.up
    assert entry.precision == precision
    assert (up.compute, up.dequantised) == experts


def test_nvfp4_keeps_latent_projections_at_16_bits():
    attention = labelled_model("deepseek-ai/DeepSeek-R1", "nvfp4", "nvfp4").model.blocks[-1].attention
    assert (attention.query.compute, attention.up.compute, attention.output.compute) == ("bf16", "bf16", "fp4")


def test_empty_modes_follow_the_precision(read):
    (point,), _ = read({"gemm_quant_mode": "", "moe_quant_mode": "", "precision": "fp8"})
    assert point.precision == "fp8 (static scales)"


def test_devices_and_models_of_the_catalogue_are_read_whatever_their_age(read):
    found, skipped = read(
        GPT_OSS | {"gpu": "b200_sxm"},
        DEEPSEEK | moe(4, 1, 1, 4, gpu="gb200", gemm_quant_mode="nvfp4", moe_quant_mode="nvfp4"),
        {"gpu": "b300_sxm", "gemm_quant_mode": "nvfp4"},
    )
    assert [point.gpu for point in found] == ["B200-SXM", "GB200", "B300-SXM"] and skipped == []
    assert found[0].precision.endswith("experts mxfp4 (fp8 activations)")  # activations at 8 bits where units take 4
    assert [point.deployment.kv_bytes for point in found] == [1.0, 1.0, 1.0]


def test_rows_that_cannot_be_priced_are_skipped_with_the_reason(read):
    found, skipped = read(
        {"gpu": "h900_sxm"},
        {"model_path": "nobody/nothing-7B"},
        {"backend": "atom"},
        {"gemm_quant_mode": "fp3"},
        {"gt_tpot_ms": ""},
        {"gt_ttft_ms": "0"},
        {"concurrency": "", "batch_size": ""},
        {"mode": "other"},
        {"gpu": "a100_sxm"},
        {"tp_size": "7"},
    )
    assert found == []
    starts = [
        "'h900_sxm'",
        "nobody/nothing-7B",
        "backend = 'atom' is not known; known: vllm, trtllm, sglang",
        "gemm_quant_mode = 'fp3' is not known",
        "gt_tpot_ms is empty",
        "gt_ttft_ms is 0",
        "neither concurrency nor batch_size is given",
        "mode = 'other' is not known",
        "A100-SXM-80GB",
        "Llama-3.1-70B on H200-SXM: tp = 7",
    ]
    assert [one.row for one in skipped] == list(range(2, 12))
    for one, start in zip(skipped, starts, strict=True):
        assert start in one.reason and "\n" not in one.reason


def test_files_that_are_wrong_are_refused(read, tmp_path):
    with pytest.raises(ValueError, match=r"measured\.csv: no column gt_tpot_ms; it has id, "):
        read({}, without=("gt_tpot_ms",))
    with pytest.raises(ValueError, match=r"measured\.csv: row 3: gt_ttft_ms = 'slow' is not a finite number"):
        read({}, {"gt_ttft_ms": "slow"})
    with pytest.raises(ValueError, match=r"measured\.csv: row 2: tp_size = '-4' must not be negative"):
        read({"tp_size": "-4"})
    with pytest.raises(ValueError, match=r"none\.csv: no such file"):
        points(tmp_path / "none.csv")


def test_rows_of_pools_are_points_where_they_are_asked_for(read, tmp_path):
    found, skipped = read(DISAGGREGATED, DISAGGREGATED | {"decode_num_workers": ""})
    assert not found and [one.reason for one in skipped] == [APART, "decode_num_workers is empty"]
    (point,), skipped = forms.served_points(tmp_path / "measured.csv")
    assert len(skipped) == 1 and degrees(point) == (1.0, 8.0, 8.0) and point.suspect is None
    assert (point.replicas, point.prompt_replicas, point.prompts.tp, point.prompts.ep) == (3.0, 2.0, 8.0, 8.0)
    assert {"tp": 8, "ep": 8, "dp": 2}.items() <= point.spec.prefill.items()


def test_releases_of_dynamo_are_those_of_the_engine_in_its_images(tmp_path, read):
    read(DISAGGREGATED | {"backend_version": "0.8.1.post1"})
    ((point,), _) = forms.served_points(tmp_path / "measured.csv")
    assert point.launch.engine == "trtllm@1.2.0rc6"


def test_impossible_points_are_suspect_and_with_them_their_series(read):
    # 70 GB over 4 H200 at 4.8 TB/s are 3.7 ms: 3.5 ms cannot be, 12 ms can.
    found, _ = read({"gt_tpot_ms": "3.5"}, {}, {"concurrency": "8", "batch_size": "8"}, {"measured_date": "2026-01-01"})
    reason = "faster than weights, cache and prompts at 95 % of the datasheet"
    assert [point.suspect for point in checked(found)] == [reason, reason, reason, None]


def test_one_measurement_under_two_layouts_is_suspect(read):
    found, _ = read(
        {}, {"tp_size": "8.0"}, {"gt_tpot_ms": "13.0"}, {"gt_tpot_ms": "13.0", "model_path": ROW["model_path"]}
    )
    marked = checked(found)
    assert [point.suspect for point in marked] == ["the same times under two layouts"] * 2 + [None] * 2


def test_drafted_tokens_show(read):
    base = DEEPSEEK | moe(8, 1, 1, 8, concurrency="4", batch_size="4", gt_tpot_ms="14.0")
    drafted = base | {"measured_date": "2026-01-14"}
    found, _ = read(
        base,
        drafted | {"gt_tpot_ms": "9.0"},  # 1.56 times faster than the same deployment
        drafted | {"gt_tpot_ms": "14.0", "isl_tokens": "8192"},  # nothing to compare with: goes with its series
        base | {"measured_date": "2026-02-01", "gt_tpot_ms": "12.0", "isl_tokens": "2048"},
        base | {"measured_date": "2026-02-01", "gt_tpot_ms": "9.0", "isl_tokens": "2048", "osl_tokens": "8192"},
    )
    reason = "tokens drafted without a label"
    assert [point.suspect for point in checked(found)] == [None, reason, reason, reason, reason]


def test_slow_expert_kernel_is_suspect(read):
    tag = {"source_tag": "h200_sxm/vllm/0.12.0/some.csv", "model_path": "Qwen/Qwen3-235B-A22B-FP8"}
    found, _ = read(tag | {"gt_tpot_ms": "50"}, tag | {"gt_tpot_ms": "51", "moe_quant_mode": "fp8_block"})
    assert [point.suspect is None for point in checked(found)] == [False, True]


@pytest.mark.skipif(not MEASURED.is_file(), reason=f"{MEASURED} is not here")
def test_the_measured_file():
    whole, skipped = points(MEASURED)
    assert len(whole) >= 959
    reasons = Counter(one.reason for one in skipped)
    assert reasons.pop(APART) >= 27
    assert set(reasons) == {"prefill_num_workers is empty", "concurrency is empty"}
    with open(MEASURED, encoding="utf-8", newline="") as file:
        assert len(whole) + len(skipped) == sum(1 for _ in csv.DictReader(file))
    # Of one model on one engine, so that the test is quick: its prompts came from the prefix cache.
    marked = checked([point for point in whole if point.model_name == "Llama-3.1-8B-Instruct-FP8"])
    assert [point.suspect is not None for point in marked] == [True] * 16
    # Labels that were repaired name the devices of one node, on which experts and attention agree.
    for point in whole:
        tp, groups, ep = degrees(point)
        assert tp * groups <= 8.0 and (tp * groups) % ep == 0.0
