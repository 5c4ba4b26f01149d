"""Points per second of production inference: `python -m tests.bench.production`."""

import time

import numpy as np

from sweeps.ask.cases import case
from sweeps.run.simulated.objective import parse_slo
from sweeps.run.sweep import sweep
from sweeps.studies.splits import splits

WORK = {"isl": 2048, "osl": 256}
PLACE = {"hardware": "A100-SXM-80GB", "model": "Llama-2-70B", "efficiency": "derated"}


def questions(size: int) -> dict[str, dict]:
    """Sweeps of size x size points, by name."""
    bandwidth = {"hardware.memory.hbm.bandwidth": np.linspace(1e12, 8e12, size).tolist()}
    drafting = {"workload.acceptance": np.linspace(0.1, 0.9, size).tolist()}
    pooled = {"prefill.hardware.memory.hbm.bandwidth": np.linspace(1e12, 8e12, size).tolist()}
    shared = {"workload.cores": np.linspace(0.1, 0.9, size).tolist()}
    neighbour = {"model": "Llama-2-13B", **WORK}
    return {
        "speculation": {
            "job": "request",
            "draft": "Llama-2-7B",
            "deployment": {"tp": 4, "drafts": 4},
            "axes": bandwidth | drafting,
        },
        "disaggregated": {
            "job": "disaggregated",
            "deployment": {"tp": 4},
            "prefill": {"tp": 4},
            "axes": bandwidth | pooled,
        },
        "colocated": {
            "job": "colocated",
            "model": "Llama-2-7B",
            "neighbour": neighbour,
            "axes": bandwidth | shared,
            "workload": {**WORK, "sharing": "space"},
        },
    }


def main() -> None:
    """Print the times of a first and a second run of the same size, compilation included."""
    for name, question in questions(1000).items():
        seconds = []
        for _ in range(2):
            start = time.perf_counter()
            found = sweep(PLACE | {"workload": WORK} | question | {"output": {"variables": ["tpot", "ttft"]}})
            seconds.append(time.perf_counter() - start)
        points = int(np.prod(list(found.sizes.values())))
        print(f"{name:14} {points:,} points  first {seconds[0]:.1f} s  second {seconds[1]:.2f} s")
    one = case("disaggregated", "A100-SXM-80GB", "Llama-2-70B", workload=WORK, deployment={"tp": 4}, prefill={"tp": 4})
    start = time.perf_counter()
    found = splits(one, 1024, np.linspace(1.0, 500.0, 200).tolist(), parse_slo("ttft=2s,tpot=60ms"))
    points = found.sizes["split"] * found.sizes["load"]
    print(f"{'splits':14} {points:,} splits x loads of 1,024 devices in {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
