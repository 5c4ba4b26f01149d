"""LLMs on Macs, a Jetson module and a board: published tokens/s of one client, of which one row was fitted to."""

import json
import math
from typing import NamedTuple

import pytest

from jaxroof.efficiency.tiles import VECTOR_SHARE
from sweeps.cli import main

SOURCES = {
    "Apple": "ggml-org/llama.cpp, discussion Performance of llama.cpp on Apple Silicon M-series: LLaMA 7B, prompts of "
    "512 tokens, 128 generated tokens, F16 and Q4_0 (18 B per 32 weights; w4a16 has 17), largest GPU of each chip",
    "Jetson": "NVIDIA/TensorRT-Edge-LLM, benchmark of a user on AGX Orin 64GB with TensorRT 10.7, 2026-03-25",
    "Raspberry": "geerlingguy/sbc-reviews, Raspberry Pi 5 model B, 2025-01-09: Ollama on a board of 16 GB; Q4_K_M has "
    "14 % more bytes than w4a16, Q4_0 of the 13B 6 %",
}
"""First word of a device's name -> where its rows are from."""


class Row(NamedTuple):
    """What one step of a device was measured at."""

    device: str
    model: str
    weights: str
    tokens: float  # of a prompt, or 1
    published: float  # tokens/s


PROMPTS = (
    Row("Apple-M1-Max", "Llama-2-7B", "fp16", 512.0, 599.53),
    Row("Apple-M2-Max", "Llama-2-7B", "fp16", 512.0, 755.67),
    Row("Apple-M2-Ultra", "Llama-2-7B", "fp16", 512.0, 1401.85),
    Row("Apple-M3-Max", "Llama-2-7B", "fp16", 512.0, 779.17),
    Row("Apple-M4-Max", "Llama-2-7B", "fp16", 512.0, 922.83),
)
"""The first was fitted to: `VECTOR_SHARE`."""

SIXTEEN_BITS = (
    Row("Apple-M1-Max", "Llama-2-7B", "fp16", 1.0, 23.03),
    Row("Apple-M2-Max", "Llama-2-7B", "fp16", 1.0, 24.65),
    Row("Apple-M2-Ultra", "Llama-2-7B", "fp16", 1.0, 41.02),
    Row("Apple-M3-Max", "Llama-2-7B", "fp16", 1.0, 25.09),
    Row("Apple-M4-Max", "Llama-2-7B", "fp16", 1.0, 31.64),
    Row("Jetson-AGX-Orin", "Qwen3-VL-4B", "bf16", 1.0, 20.2),
    Row("Jetson-AGX-Orin", "Qwen2.5-VL-3B", "bf16", 1.0, 27.2),
)
ORIN = (
    Row("Jetson-AGX-Orin", "Qwen3-VL-4B", "w8a16", 1.0, 35.5),
    Row("Jetson-AGX-Orin", "Qwen3-VL-4B", "w4a16", 1.0, 52.2),
    Row("Jetson-AGX-Orin", "Qwen2.5-VL-3B", "w8a16", 1.0, 45.2),
    Row("Jetson-AGX-Orin", "Qwen2.5-VL-3B", "w4a16", 1.0, 71.8),
)
FOUR_BITS = (
    Row("Apple-M1", "Llama-2-7B", "w4a16-fp16", 1.0, 14.15),
    Row("Apple-M1-Max", "Llama-2-7B", "w4a16-fp16", 1.0, 61.19),
    Row("Apple-M2-Max", "Llama-2-7B", "w4a16-fp16", 1.0, 65.95),
    Row("Apple-M2-Ultra", "Llama-2-7B", "w4a16-fp16", 1.0, 94.27),
    Row("Apple-M3-Max", "Llama-2-7B", "w4a16-fp16", 1.0, 66.31),
    Row("Apple-M4-Max", "Llama-2-7B", "w4a16-fp16", 1.0, 83.06),
    Row("Raspberry-Pi-5", "Llama-3.2-3B", "w4a16-fp16", 1.0, 4.88),
    Row("Raspberry-Pi-5", "Llama-3.1-8B", "w4a16-fp16", 1.0, 2.17),
    Row("Raspberry-Pi-5", "Llama-2-13B", "w4a16-fp16", 1.0, 1.36),
)


def ratio(row: Row, capsys: pytest.CaptureFixture) -> float:
    """Predicted over published tokens/s; generated tokens have a context of 64, the mean of the first 128."""
    step = (
        ("--prefills", "1", "--prefill", f"{row.tokens:g}")
        if row.tokens > 1.0
        else ("--decode", "1", "--context", "64")
    )
    words = ("--model", row.model, "--hardware", row.device, "--weights", row.weights, "--efficiency", "learned")
    assert main(["step", *words, *step, "--json"]) == 0
    return row.tokens / json.loads(capsys.readouterr().out)["metrics"]["step_time"] / row.published


def test_every_row_has_a_source():
    rows = (*PROMPTS, *SIXTEEN_BITS, *ORIN, *FOUR_BITS)
    assert {row.device.partition("-")[0] for row in rows} == set(SOURCES) and len(set(rows)) == len(rows)


def test_the_row_that_was_fitted_to(capsys):
    """VECTOR_SHARE has two digits: 1 %."""
    assert ratio(PROMPTS[0], capsys) == pytest.approx(1.0, rel=0.01) and VECTOR_SHARE == 0.78


@pytest.mark.parametrize(
    ("rows", "most"),
    [
        pytest.param(PROMPTS[1:], 0.10, id="prompts"),
        pytest.param(SIXTEEN_BITS, 0.13, id="16 bits"),
        pytest.param(ORIN, 0.13, id="Orin, quantised"),
        pytest.param(FOUR_BITS, 0.42, id="4 bits"),
    ],
)
def test_rows_that_nothing_was_fitted_to(rows, most, capsys):
    """Largest errors, rounded up. Of 4 bits it is what an M2 Ultra and a Raspberry Pi lose, which nothing says."""
    found = {row[:3]: ratio(row, capsys) for row in rows}
    assert all(abs(math.log(one)) < math.log1p(most) for one in found.values()), found
