"""Training: layouts at random, searches over layouts, and a grid over ZeRO, recomputation and schedules."""

import random
from collections.abc import Iterator

from tests.golden.answers import Question, command, swept

LAYOUTS = 24

FIXED = (
    "train --model GPT-3-175B --hardware A100-SXM-80GB --tp 8 --pp 8 --dp 2 --global-batch 64 --seq 2048"
    " --schedule interleaved:2 --recompute selective --sequence-parallel --efficiency derated",
    "train --model Llama-3.1-70B --hardware H100-SXM --tp 8 --pp 4 --dp 2 --global-batch 64 --seq 8192 --precision fp8"
    " --tokens 1000000000 --efficiency derated",
    "train --model Llama-3.1-8B --hardware H100-SXM --dp 4 --global-batch 16 --seq 2048 --lora rank=16,target=q,v"
    " --efficiency derated",
    "train --model Mixtral-8x7B --hardware H100-SXM --tp 2 --dp 8 --ep 8 --global-batch 64 --seq 4096 --imbalance 1.3"
    " --efficiency derated",
    "train --model Llama-2-7B --hardware H100-SXM --tp 2 --dp 4 --global-batch 64 --seq 4096 --zero 1"
    " --offload optimizer --host-bandwidth 55GB/s --efficiency derated",
    "train --model Llama-2-7B --hardware H100-SXM --cp 4 --dp 2 --global-batch 64 --seq 32768 --context-kind all_gather"
    " --efficiency derated",
    "train --model Llama-2-7B --hardware H100-SXM --tp 8 --dp 8 --global-batch 64 --seq 4096 --zero 1",
    "train --model Llama-2-7B --hardware H100-SXM --tp 3 --global-batch 64 --seq 4096 --efficiency derated",
    "train --model Llama-2-7B --hardware H100-SXM --dp 3 --global-batch 64 --seq 4096 --efficiency derated",
    "train --model Llama-2-7B --hardware H100-SXM --global-batch 64 --seq 4096 --zero 4 --efficiency derated",
    "train --model Llama-2-7B --hardware H100-SXM --global-batch 64 --seq 4096 --schedule eager --efficiency derated",
    "train --model Llama-2-7B --hardware H100-SXM --global-batch 64 --seq 4096 --offload optimizer",
    "train --model Llama-2-7B --hardware H100-SXM --global-batch 64 --efficiency derated",
    "train --model Llama-2-70B --hardware H100-SXM --global-batch 256 --seq 4096 --search --devices 64 --top 50"
    " --efficiency derated",
    "train --model Mixtral-8x7B --hardware A100-SXM-80GB --global-batch 64 --seq 2048 --search --devices 32 --top 50"
    " --efficiency derated",
    "train --model GPT-3-175B --hardware A100-SXM-80GB --global-batch 64 --seq 2048 --search --devices 4"
    " --efficiency derated",
)


def questions() -> Iterator[tuple[str, Question]]:
    """Layouts at random, fixed ones and searches, and a sample of the sweep's job."""
    draw = random.Random(7)
    for _ in range(LAYOUTS):
        words = drawn(draw)
        yield words, lambda words=words: command(words)
    for words in FIXED:
        yield words, lambda words=words: command(words)
    yield "grid over strategies", grid
    yield "layouts, 200 at random", sample


def drawn(draw: random.Random) -> str:
    """The words of one layout; whether it fits and can be is left to chance."""
    words = ["train", "--model", draw.choice(("Llama-2-7B", "Llama-2-70B", "Llama-2-70B"))]
    words += ["--hardware", draw.choice(("H100-SXM", "H100-SXM", "H200-SXM", "MI300X")), "--efficiency", "derated"]
    words += ["--tp", str(draw.choice((1, 2, 4, 8))), "--pp", str(draw.choice((1, 2, 4, 8)))]
    words += ["--dp", str(draw.choice((1, 2, 4, 8))), "--micro-batch", str(draw.choice((1, 2)))]
    words += ["--global-batch", str(draw.choice((64, 128, 512))), "--seq", str(draw.choice((1024, 2048, 4096)))]
    words += ["--zero", str(draw.choice((0, 1, 2, 3))), "--recompute", draw.choice(("none", "selective", "full"))]
    words += ["--schedule", draw.choice(("1f1b", "gpipe", "interleaved:2", "zero-bubble", "dualpipe"))]
    return " ".join(words + draw.choice(([], ["--sequence-parallel"])))


def grid() -> dict:
    """ZeRO by recomputation by schedule by micro-batch."""
    return swept(
        job="train",
        hardware="H100-SXM",
        model="Llama-2-13B",
        efficiency="derated",
        deployment={"tp": [1, 4], "pp": 4, "dp": 4},
        workload={"global_batch": 64, "seq": 2048, "micro_batch": [1, 2], "zero": [0, 1, 2, 3]}
        | {"recompute": ["none", "selective", "full"], "schedule": ["gpipe", "1f1b", "zero_bubble"]},
    )


def sample(points: int = 200) -> dict:
    """Random degrees and ZeRO stages."""
    return swept(
        job="train",
        mode="sample",
        hardware="H100-SXM",
        model="Llama-3.1-8B",
        efficiency="derated",
        deployment={"tp": [1, 2, 4, 8], "pp": [1, 2, 4], "dp": [1, 2, 4, 8]},
        workload={"global_batch": [64, 256], "micro_batch": [1, 2, 4], "seq": {"from": 512, "to": 8192, "scale": "log"}}
        | {"zero": [0, 1, 2, 3]},
        sample={"points": points, "method": "random", "seed": 3},
    )
