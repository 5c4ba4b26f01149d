"""Single answers of the command line: random deployments as users type them, and what is refused."""

import random
from collections.abc import Iterator

from tests.golden.answers import Question, command

DRAWN = 60

MODELS = {
    "Llama-3.1-8B": 6,
    "Llama-3.1-70B": 6,
    "Qwen3-30B-A3B": 3,
    "DeepSeek-V2-Lite": 1,
    "Gemma-3-12B": 1,
    "Mamba2-2.7B": 1,
    "T5-large": 1,
}
"""Catalogue models, and how often each is drawn."""

HARDWARE = "H100-SXM H100-SXM H100-SXM H200-SXM A100-SXM-80GB MI300X B200-SXM L4 V100-SXM Gaudi3 TPU-v5p".split()

FIXED = (
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --batch 1.5",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --tp 0",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --tp 3",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --drafts 2",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --adapters loaded=16",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --offloaded 0.5",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --imbalance 0.5",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --imbalance 1.5",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --reserved-cores 0.1",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --acceptance 0.7",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --ep 8",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --overlap all",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --set hardware.memory.hbm.bandwith=8TB/s",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --set hardware.memory.hbm.bandwidth=8TB",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --efficiency learnt",
    "request --hardware A100-SXM-80GB --model Llama-3.1-8B --isl 100 --osl 10 --weights fp8",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --weights fp9",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --kv int3",
    "request --hardware H100-SXM --model BERT-large --isl 100 --osl 10",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --encoder-tokens 10",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --pp 64",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --pp 2 --stages 10,10",
    "request --hardware H100-SXM --model Llama-3.1-8B --isl 100 --osl 10 --cached 200",
    "request --hardware H100-SXM --model Qwen3-30B-A3B --isl 100 --osl 10 --ep 3",
    "step --hardware H100-SXM --model Llama-3.1-8B",
    "step --hardware H100-SXM --model Llama-3.1-8B --decode 4",
    "step --hardware H100-SXM --model Llama-3.1-8B --prefill many",
    "step --hardware H100-SXM --prefill 10",
    "step --model Llama-3.1-8B --prefill 10",
    "request --hardware H100-SXM --model Qwen2.5-VL-7B --isl 100 --osl 10 --image 10",
    "request --hardware H100-SXM --model Llama-3.1-405B --isl 100 --osl 10 --efficiency derated",
    "request --hardware H100-SXM --model Qwen2.5-VL-7B --isl 1000 --osl 10 --image 1280x720 --images 2"
    " --efficiency derated",
    "request --hardware H100-SXM --model DeepSeek-V3 --attention-dp 16 --ep 16 --isl 1024 --osl 128 --batch 512"
    " --overlap two_batch --reserved-cores 0.1 --efficiency derated",
    "request --hardware H100-SXM --model Llama-3.1-70B --tp 4 --pp 4 --stages 21,20,20,19 --isl 512 --osl 64 --batch 8"
    " --efficiency derated",
    "request --hardware H100-SXM --model Llama-3.1-70B --tp 8 --isl 512 --osl 64 --delay 150ms --efficiency derated",
)
"""What cannot be, and settings that are not drawn."""


def questions() -> Iterator[tuple[str, Question]]:
    """The fixed ones; then `DRAWN` deployments by turns as a step and as a request."""
    for words in FIXED:
        yield words, lambda words=words: command(words)
    draw = random.Random(20)
    for i in range(DRAWN):
        words = drawn(draw, "request" if i % 2 else "step")
        yield words, lambda words=words: command(words)


def drawn(draw: random.Random, verb: str) -> str:
    """The words of one question; whether its deployment can be is left to chance."""
    model = draw.choices(list(MODELS), list(MODELS.values()))[0]
    words = [verb, "--hardware", draw.choice(HARDWARE), "--model", model, "--efficiency", "derated"]
    words += ["--tp", str(draw.choice((1, 2, 4, 8, 8, 3)))]
    if draw.random() < 0.3:
        words += ["--pp", str(draw.choice((2, 4)))]
    if draw.random() < 0.2:
        words += ["--dp", str(draw.choice((2, 16)))]
    if draw.random() < 0.1:
        words += ["--cp", str(draw.choice((2, 4)))]
    if model in ("Qwen3-30B-A3B", "Mixtral-8x7B", "DeepSeek-V2-Lite", "gpt-oss-20b") and draw.random() < 0.6:
        words += ["--attention-dp", str(draw.choice((1, 2, 4))), "--ep", str(draw.choice((2, 4, 8)))]
    if draw.random() < 0.1:
        words += ["--kv", "fp8"]
    if draw.random() < 0.2:
        path, value = draw.choice(
            (
                ("hardware.memory.hbm.bandwidth", f"{draw.randint(1, 16)}TB/s"),
                ("hardware.cores.count", str(draw.randint(40, 300))),
                ("hardware.power.tdp", f"{draw.randint(200, 1200)}W"),
                ("hardware.price", f"{draw.randint(1, 9)}USD/h"),
            )
        )
        words += ["--set", f"{path}={value}"]
    size = lambda low, high: str(round(low * (high / low) ** draw.random()))  # noqa: E731
    if model == "T5-large":
        words += ["--encoder-tokens", size(16, 2048)]
    if verb == "request":
        return " ".join([*words, "--isl", size(16, 16384), "--osl", size(2, 1024), "--batch", size(1, 256)])
    part = draw.choice(("prefill", "decode", "both"))
    if part != "decode":
        words += ["--prefill", size(16, 8192), "--prefills", str(draw.choice((1, 4)))]
    if part != "prefill":
        words += ["--decode", size(1, 512), "--context", size(16, 65536)]
    return " ".join(words)
