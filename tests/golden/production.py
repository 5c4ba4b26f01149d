"""Speculation, adapters, caches outside of the device, pools of their own, co-located models, and splits of devices."""

from collections.abc import Iterator

from tests.golden.answers import Question, command, dataset, folder, swept

PLACE = "--hardware A100-SXM-80GB --efficiency derated --isl 1024 --osl 256"

SINGLE = (
    "request {} --model Llama-2-70B --tp 4 --draft Llama-2-7B --drafts 4 --acceptance 0.8",
    "request {} --model Llama-2-70B --tp 4 --draft Llama-2-7B --drafts 4 --acceptance beta:0.7,5 --batch 8",
    "request {} --model Llama-2-70B --tp 4 --draft Llama-2-7B --tree 4,2,1 --acceptance 0.6",
    "request {} --model Llama-2-7B --adapters rank=16,loaded=32,targets=q,v --batch 16",
    "request {} --model Llama-2-7B --batch 32 --offloaded 0.5 --set hardware.memory.host.bandwidth=25GB/s"
    " --set hardware.memory.host.capacity=128GB",
    "disaggregate {} --model Llama-2-70B --tp 4 --prefill tp=4 --batch 32",
    "disaggregate {} --model Llama-2-70B --tp 4 --prefill tp=4 --prefill hardware=H100-SXM --batch 32 --rate 1 --whole",
    "disaggregate {} --model Llama-2-70B --tp 1 --batch 8",
    "disaggregate {} --model Llama-2-7B --prefill tp=3 --batch 8",
    "disaggregate {} --model Llama-2-7B --devices 8 --slo ttft=500ms,tpot=30ms --batch 8",
    "disaggregate {} --model Llama-2-70B --tp 4 --prefill tp=4 --devices 32 --loads 1,2,4,8 --slo ttft=1s,tpot=50ms",
    "colocate {} --model Llama-2-7B --neighbour model=Llama-2-13B --neighbour isl=512 --neighbour osl=128",
    "colocate {} --model Llama-2-7B --batch 8 --sharing space --cores 0.7 --cache 0.6 --neighbour model=Llama-2-13B"
    " --neighbour isl=512 --neighbour osl=128 --neighbour batch=4",
    "colocate {} --model Llama-2-70B --neighbour model=Llama-2-13B --neighbour isl=512 --neighbour osl=128",
    "colocate {} --model Llama-2-7B",
)


def questions() -> Iterator[tuple[str, Question]]:
    """Single answers; then samples of pools and neighbours, and every split of some devices."""
    for words in SINGLE:
        words = words.format(PLACE)
        yield words, lambda words=words: command(words)
    yield "pools, 200 at random", pools
    yield "neighbours, 200 at random", neighbours
    yield "splits of 16 devices", splits


def pools(points: int = 200) -> dict:
    """Random prefill and decode pools."""
    return swept(
        job="disaggregated",
        mode="sample",
        model="Llama-2-70B",
        efficiency="derated",
        prefill={"hardware": "H100-SXM", "tp": 4},
        decode={"hardware": "A100-SXM-80GB", "tp": 4, "dp": [1, 2, 4]},
        workload={
            "isl": {"from": 128, "to": 8192, "scale": "log"},
            "osl": {"from": 16, "to": 1024, "scale": "log"},
            "batch": [1, 8, 16, 32, 64, 128],
            "rate": {"from": 0.1, "to": 4.0},
        },
        axes={
            "prefill.deployment.dp": [1, 2, 4],
            "hardware.links.scale_out.bandwidth": {"from": "12.5GB/s", "to": "100GB/s"},
        },
        sample={"points": points, "method": "sobol", "seed": 1},
    )


def neighbours(points: int = 200) -> dict:
    """Two models on the cores of one device, shared at random."""
    return swept(
        job="colocated",
        mode="sample",
        hardware="H100-SXM",
        model="Llama-2-7B",
        efficiency="derated",
        neighbour={"model": "Llama-2-13B", "isl": 1024, "osl": 256, "batch": 4},
        workload={
            "isl": {"from": 128, "to": 4096, "scale": "log"},
            "osl": {"from": 16, "to": 512, "scale": "log"},
            "batch": [1, 8, 16],
            "sharing": "space",
        },
        axes={"workload.cores": {"from": 0.1, "to": 0.9}},
        sample={"points": points, "method": "latin_hypercube", "seed": 2},
    )


def splits() -> dict:
    """The file of every split and load."""
    import xarray as xr

    with folder():
        words = f"disaggregate {PLACE} --model Llama-2-7B --devices 16 --loads 1,4,16 --slo ttft=500ms,tpot=30ms"
        said = command(f"{words} -o splits.nc")
        with xr.open_dataset("splits.nc") as found:
            return {f"said{place}": value for place, value in said.items()} | dataset(found)
