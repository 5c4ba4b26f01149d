"""Models and hardware of the catalogue, areas of dies, and request streams."""

from collections.abc import Iterator

from tests.golden.answers import Question, command, digest, grouped, shortened

WHOLE = ("H100-SXM", "MI300X", "TPU-v5p", "Gaudi3", "GB200", "L4")
"""Accelerators whose every figure is kept; of the others a digest."""

MODELS = (
    "Llama-3.1-70B DeepSeek-V3 Qwen3-Next-80B-A3B gpt-oss-120b Gemma-3-27B T5-large Whisper-large-v3 Qwen2.5-VL-7B "
    "Mamba2-2.7B Qwen2.5-72B-Instruct-AWQ DeepSeek-V4-Flash Llama-4-Scout-17B-16E Kimi-K2"
).split()

STREAMS = (
    "--rate 8 --isl lognormal:mean=1024,p95=3000 --osl 256",
    "--rate gamma:rate=8,cv=3 --isl uniform:128..2048 --osl lognormal:mean=256,sigma=0.6 --seed 3",
    "--rate stages:8x60,16x30 --isl 512 --osl 64",
    "--rate onoff:rate=20,on=10,off=50 --isl lognormal:p50=700,p99=8000 --osl 64 --duration 300",
    "--rate 4 --isl 300 --osl 100 --requests 500 --prefixes groups=10,tokens=1000,zipf=1",
    "--rate 4 --isl 300 --osl 100 --requests 500 --sessions turns=2..8,think=30 --seed 5",
)


def questions() -> Iterator[tuple[str, Question]]:
    """Lists of what there is, single entries, figures of dies, and statistics of streams."""
    yield "models, each", lambda: grouped(command("models"))
    yield "hardware, each", lambda: grouped(command("hardware"))
    for name in WHOLE:
        yield f"hardware {name}", lambda name=name: _numbers(command(f"hardware {name}"))
    for name in MODELS:
        yield f"models {name}", lambda name=name: command(f"models {name}")
    yield "validate area", lambda: command("validate area")
    yield "validate plausibility", lambda: shortened(command("validate plausibility --efficiency derated"))
    for words in STREAMS:
        yield f"trace {words}", lambda words=words: command(f"trace {words}")
    for name in ("H100-SXN", "b200", "TPU-v9"):
        yield f"hardware {name}", lambda name=name: command(f"hardware {name}")
    for name in ("Llama-3.1-71B", "deepseek", ""):
        yield f"models {name!r}", lambda name=name: command(["models", name])


def _numbers(table: dict) -> dict:
    """Every number, and a digest of the texts."""
    texts = {place: value for place, value in table.items() if not isinstance(value, float)}
    return {place: value for place, value in table.items() if place not in texts} | {
        f"digest/{place}": value for place, value in digest(texts).items()
    }
