"""Comparisons of accelerators, numbers of devices, layouts and batches: rankings, reasons, and files of all points."""

from collections.abc import Iterator

from tests.golden.answers import Question, command, dataset, folder, shortened

SMALL = "compare --static --model Llama-3.1-8B --isl 512 --osl 64 --efficiency derated"

SERVED = (
    "compare --model Llama-3.1-8B --isl 512 --osl 64 --slo ttft=1s,tpot=30ms --hardware H100-SXM,L20 --rate 20"
    " --efficiency learned"
)

ASKED = (
    f"{SMALL} --slo ttft=1s,tpot=20ms --all",
    f"{SMALL} --hardware H100-SXM,L20,MI300X,L4 --devices 1,2,4 --batch 1,64 --all",
    f"{SMALL} --hardware H100-SXM,L20,MI300X,L4 --devices 1,2,4 --batch 1,8,64,512 --sort tpot --top 8",
    f"{SMALL} --hardware H100-SXM,L20 --slo ttft=1us --sort tpot",
    f"{SMALL} --hardware A100-SXM-80GB,H100-SXM --devices 1,2 --weights fp8 --kv fp8",
    f"{SMALL} --hardware H100-SXM --devices 1 --set hardware.price=2USD/h",
    f"{SMALL} --sort usd_per_million_token",
    f"{SMALL} --hardware H100-SXM,H20O-SXM",
    f"{SMALL} --slo tfft=1s",
    f"{SMALL} --devices 1.5",
    "compare --static --model Qwen3-30B-A3B --isl 1024 --osl 128 --hardware H100-SXM,MI300X --devices 4,8 --batch 8,64"
    " --efficiency derated --sort tokens_per_second_per_device --all",
    "compare --static --model Llama-3.1-70B --isl 1024 --osl 256 --hardware H100-SXM,B200-SXM --devices 2,8"
    " --batch 1,32 --all",
    f"{SERVED} --simulate 0",
    f"{SERVED} --simulate 1 --requests 200 --no-disaggregated",
)


def questions() -> Iterator[tuple[str, Question]]:
    """Rankings, and the file of all points of one."""
    for words in ASKED:
        yield words, lambda words=words: shortened(command(words), 1000)
    yield "file of all points", points


def points() -> dict:
    """All points, as the file has them."""
    import xarray as xr

    with folder():
        said = command(f"{SMALL} --hardware H100-SXM,L20,MI300X --devices 1,2,4 --batch 1,64 --sort tpot -o points.nc")
        if "status" in said:
            return said
        with xr.open_dataset("points.nc") as found:
            return dataset(found)
