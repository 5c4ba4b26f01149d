"""Simulated engines: policies, arrivals, closed loops, traces, prefixes and sessions; capacities; a grid of runs."""

from collections.abc import Iterator

from tests.golden.answers import Question, command, dataset, folder, swept

PLACE = "serve --hardware H100-SXM --model Llama-3.1-8B --efficiency derated --requests 150 --slo ttft=500ms,tpot=12ms"
LENGTHS = "--isl lognormal:mean=1024,sigma=0.8 --osl lognormal:mean=128,sigma=0.6"

RUNS = (
    f"{PLACE} {LENGTHS} --rate 4",
    f"{PLACE} {LENGTHS} --rate 12 --seed 3",
    f"{PLACE} {LENGTHS} --rate 40 --seed 1 --policy token_budget=512",
    f"{PLACE} {LENGTHS} --rate 12 --policy order=prefill_first",
    f"{PLACE} {LENGTHS} --rate 12 --policy order=decode_first",
    f"{PLACE} {LENGTHS} --rate 60 --policy queue=shortest_first",
    f"{PLACE} {LENGTHS} --rate 60 --policy max_sequences=8",
    f"{PLACE} {LENGTHS} --rate 60 --policy chunked=0",
    f"{PLACE} {LENGTHS} --rate 60 --set hardware.memory.hbm.capacity=24GB",
    f"{PLACE} {LENGTHS} --rate 60 --set hardware.memory.hbm.capacity=26GB --policy block_size=64",
    f"{PLACE} {LENGTHS} --rate 12 --engine sglang",
    f"{PLACE} {LENGTHS} --rate 12 --engine trtllm",
    f"{PLACE} {LENGTHS} --arrivals gamma:rate=8,cv=3 --dp 2",
    f"{PLACE} {LENGTHS} --arrivals onoff:rate=20,on=10,off=50 --tp 2",
    f"{PLACE} {LENGTHS} --arrivals stages:8x10,16x6",
    f"{PLACE} --isl 1000 --osl 100 --arrivals once",
    f"{PLACE} --isl 300 --osl 100 --rate 8 --prefixes groups=10,tokens=1000,zipf=1",
    f"{PLACE} --isl 300 --osl 100 --rate 8 --prefixes groups=10,tokens=1000,zipf=1 --policy prefix_caching=0",
    f"{PLACE} --isl 300 --osl 50 --rate 4 --sessions turns=2..8,think=30",
    f"{PLACE} {LENGTHS} --concurrency 16",
    f"{PLACE} {LENGTHS} --concurrency 64 --think 1s",
    f"{PLACE} {LENGTHS} --concurrency 16 --policy order=prefill_first",
    f"{PLACE} --trace trace.csv",
    f"{PLACE} --trace trace.csv --rate 20",
    f"{PLACE} --trace trace.csv --concurrency 8",
    f"{PLACE} {LENGTHS} --rate 0",
    f"{PLACE} {LENGTHS} --rate 4 --concurrency 4",
    f"{PLACE} {LENGTHS} --rate 4 --policy token_budgets=3",
    f"{PLACE} {LENGTHS} --rate 4 --policy queue=random",
    f"{PLACE} {LENGTHS}",
    f"{PLACE} --isl normal:3 --osl 10 --rate 4",
    f"{PLACE} {LENGTHS} --rate 4 --set hardware.memory.hbm.capacity=10GB",
)

MIXTURE = (
    "serve --hardware H100-SXM --model Qwen3-30B-A3B --tp 2 --ep 2 --efficiency derated --requests 100 --rate 20"
    " --isl 500 --osl 60"
)

CAPACITY = (
    "capacity --hardware H100-SXM,L4,T4 --model Llama-3.1-8B --isl 300 --osl 20 --requests 100"
    " --slo ttft=200ms,tpot=20ms --efficiency derated"
)


def questions() -> Iterator[tuple[str, Question]]:
    """Runs, the file of one run, a grid, and capacities."""
    for words in RUNS:
        yield words, lambda words=words: run(words)
    yield MIXTURE, lambda: command(MIXTURE)
    yield "file of a run", run_file
    yield "grid of runs", grid
    yield f"{CAPACITY} --rates 1..64 --points 6", lambda: command(f"{CAPACITY} --rates 1..64 --points 6")
    yield f"{CAPACITY} --concurrency 1..64 --points 6", lambda: command(f"{CAPACITY} --concurrency 1..64 --points 6")


def run(words: str) -> dict:
    """A run, beside a small trace of made-up requests."""
    with folder() as place:
        rows = [
            f"2023-11-16 18:{i // 12:02}:{i % 12 * 5:02}.0000000,{100 + i * 37 % 2000},{10 + i * 13 % 200}"
            for i in range(160)
        ]
        (place / "trace.csv").write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]) + "\n")
        return command(words)


def run_file() -> dict:
    """Every request and iteration of a run, as its file has them."""
    import xarray as xr

    with folder():
        said = command(f"{PLACE} {LENGTHS} --rate 12 --seed 5 -o run.nc")
        if "status" in said:
            return said
        with xr.open_dataset("run.nc") as found:
            return dataset(found)


def grid() -> dict:
    """Rates by seeds by budgets, on two accelerators."""
    return swept(
        job="serve",
        hardware=["H100-SXM", "H200-SXM"],
        model="Llama-3.1-8B",
        efficiency="derated",
        slo="ttft=500ms,tpot=40ms",
        workload={"rate": [4, 40], "isl": "lognormal:mean=1024,sigma=0.8", "osl": 64, "requests": 150, "seed": [0, 1]},
        policy={"token_budget": [2048, 8192]},
    )
