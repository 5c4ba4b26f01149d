"""The five answers to how far kernels are from the datasheet, for dense models, mixtures and latent attention."""

from collections.abc import Iterator
from pathlib import Path

from tests.golden.answers import Question, command, folder, swept

POINTS = 200

MODES = ("datasheet", "half", "kernel", "learned", "learned-trtllm", "learned-sglang")

PLACES = {
    "dense": {"model": "Llama-3.1-8B", "hardware": "H100-SXM"},
    "mixture of experts": {"model": "Qwen3-30B-A3B", "hardware": "H100-SXM"},
}

SINGLE = (
    "request --hardware H100-SXM --model Llama-3.1-8B --tp 2 --isl 1000 --osl 100 --batch 32",
    "step --hardware H200-SXM --model DeepSeek-V2-Lite --ep 4 --attention-dp 4 --decode 128 --context 3000",
    "step --hardware B200-SXM --model Llama-3.1-70B --tp 4 --prefill 2048 --efficiency kernel",
)


def questions() -> Iterator[tuple[str, Question]]:
    """A sample by each of the modes as one step, single requests, and a surface of made-up times."""
    for family in PLACES:
        for seed, mode in enumerate(MODES):
            if family == "dense" or mode == "learned":
                yield f"{family}, {mode}", lambda family=family, mode=mode, seed=seed: sampled(family, mode, seed)
    for words in SINGLE:
        yield words, lambda words=words: command(words)
    yield "surface", surface


def sampled(family: str, mode: str, seed: int, points: int = POINTS) -> dict:
    """A random sample of steps that prefill and decode."""
    log = {"scale": "log"}
    return swept(
        job="step",
        mode="sample",
        efficiency=mode,
        workload={
            "prefills": [1, 2, 4],
            "prefill": {"from": 16, "to": 8192, **log},
            "decode": {"from": 1, "to": 512, **log},
            "context": {"from": 16, "to": 32768, **log},
        },
        deployment={"tp": [1, 2, 4, 8]},
        axes={"hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "9TB/s"}},
        sample={"points": points, "method": "random", "seed": seed},
        output={"breakdown": True},
        **PLACES[family],
    )


def surface() -> dict:
    """A table of products at times of a plain formula, imported, and a step that it predicts."""
    with folder() as place:
        file = place / "gemm" / "h100" / "data.csv"
        file.parent.mkdir(parents=True)
        sizes = [(m, k, n) for m in (16, 64, 1024) for k in (1024, 4096, 16384) for n in (512, 4096, 32768)]
        rows = [f"{m},{k},{n},{20 + k * n / 1e6 + m * k * n / 2e8:.3f},0.1" for m, k, n in sizes]
        file.write_text("\n".join(["m,k,n,latency_us,mfu", *rows]) + "\n")
        out = Path("own.nc")
        words = ["surface", "import", str(file), "-o", str(out)]
        table = {f"import/{place}": value for place, value in _quiet(words).items()}
        step = "step --hardware H100-SXM --model Llama-3.1-8B --weights fp8 --decode 100 --context 1000"
        return table | command(f"{step} --efficiency surface:own.nc:derated")


def _quiet(words: list[str]) -> dict:
    """The exit status of a verb that writes a file and has no JSON."""
    import contextlib
    import io

    from sweeps.cli import main

    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        status = main([*words, "-v"])
    return {"status": status, "said": (out.getvalue() if status == 0 else err.getvalue()).strip()}
