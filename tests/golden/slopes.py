"""Sensitivities: elasticities of steps, requests, training and simulations, at a point and over a sweep."""

from collections.abc import Iterator

from tests.golden.answers import Question, called, command, shortened

PLACE = "sensitivity --hardware H100-SXM --efficiency derated --all"

ASKED = (
    f"{PLACE} --job step --model Llama-3.1-8B --tp 2 --decode 32 --context 2000",
    f"{PLACE} --job step --model Qwen3-30B-A3B --tp 2 --ep 2 --decode 32 --context 2000 --smoothing 0",
    f"{PLACE} --job request --model Llama-3.1-8B --tp 2 --batch 32 --isl 1024 --osl 256",
    f"{PLACE} --job train --model Llama-2-7B --tp 2 --dp 4 --global-batch 32 --seq 2048",
    f"{PLACE} --job step --model Llama-3.1-8B --decode 8 --context 100 --metric step_time"
    " --knob hardware.memory,hardware.links --second-order",
    f"{PLACE} --job step --model Llama-3.1-8B --decode 8 --context 100 --metric step_tim",
    f"{PLACE} --job step --model Llama-3.1-8B --decode 8 --context 100 --knob hardware.memories",
)


def questions() -> Iterator[tuple[str, Question]]:
    """Points, one with the usual efficiency, and a map."""
    for words in ASKED:
        yield words, lambda words=words: shortened(command(words))
    yield "map", mapped


def mapped() -> dict:
    """Elasticities of a decode step over batch and bandwidth."""
    import sweeps

    source = {
        "job": "step",
        "hardware": "H100-SXM",
        "model": "Llama-3.1-8B",
        "efficiency": "derated",
        "workload": {"decode": [1, 8, 64, 512], "context": 2000},
        "axes": {"hardware.memory.hbm.bandwidth": ["1TB/s", "3TB/s", "9TB/s"]},
    }
    knobs = ["hardware.memory.hbm.bandwidth", "hardware.matrix.bf16", "hardware.memory.l2.bandwidth"]
    return called(lambda: sweeps.sensitivity(source, metrics=["step_time"], knobs=knobs).dataset)
