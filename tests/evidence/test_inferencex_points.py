"""Published runs as points: versions in the names of images, a row by hand, and rows that cannot be read."""

import pytest

from sweeps.measure.validate.serving.inferencex import NUMBERS, ONE_ENGINE, TEXTS, version
from tests.evidence.inferencex_points import MEANS, POWER, READ, published


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("lmsysorg/sglang:v0.5.6.post1-rocm700-mi35x", "0.5.6.post1"),
        ("vllm/vllm-openai:v0.13.0", "0.13.0"),
        ("nvcr.io#nvidia/tensorrt-llm/release:1.2.0rc2", "1.2.0rc2"),
        ("rocm/atom:rocm7.1.1-ubuntu24.04-pytorch2.9-atom0.1.1-MI350x", "0.1.1"),
        ("rocm/sgl-dev:sglang-0.5.9-rocm720-mi35x-mori-0227-3", "0.5.9"),
        ("nvcr.io/nvidia/ai-dynamo/tensorrtllm-runtime:0.8.1.post1", "1.2.0rc6"),  # TensorRT-LLM in Dynamo's image
        ("", ""),
    ],
)
def test_versions_of_images(image, expected):
    assert version(image) == expected


def row(**changes):
    texts = ("a", "mi300x", "sglang", "deepseek-ai/DeepSeek-R1-0528", "fp8", "2026-05-18", "", "")
    values = dict(zip(TEXTS, texts, strict=True)) | dict(zip(NUMBERS, (1024, 1024, 4, 25, 160, 15), strict=True))
    values |= dict(zip(ONE_ENGINE, (8, 1), strict=True)) | {"dp_attention": "False"}
    values |= dict.fromkeys((*MEANS, POWER), "") | changes
    return values


def written(folder, *rows):
    (folder / "serving2").mkdir()
    columns = READ
    lines = [",".join(str(row[column]) for column in columns) for row in rows]
    (folder / "serving2" / "inferencex_agg.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
    return published(folder)


def test_a_run_is_a_point_with_means_where_there_are_any(tmp_path):
    (median, mean), left = written(
        tmp_path, row(), row(mean_ttft_ms=500, mean_tpot_ms=16, avg_power_w=700), row(flag="drift")
    )
    assert not left and (median.framework, median.precision) == ("sglang", "fp8")
    assert median.tokens_per_second == 200.0 and median.median_ttft == pytest.approx(0.16)
    assert (median.point.ttft, median.point.tpot) == pytest.approx((0.16, 0.015))
    assert (mean.point.ttft, mean.point.tpot) == pytest.approx((0.5, 0.016))
    assert (median.watts, mean.watts) == (None, 700.0)
    assert median.point.gpu == "MI300X" and median.point.deployment.tp == 8.0
    assert (median.point.policy.first_time, median.point.policy.max_sequences) == (4.0, 4.0)


def test_a_row_that_cannot_be_priced_is_left_out_with_its_reason(tmp_path):
    found, (left,) = written(tmp_path, row(), row(config_id="b", hardware="mi300y"))
    assert len(found) == 1 and left.name == "b" and "mi300y" in left.reason
