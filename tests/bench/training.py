"""Layouts x hardware points per second of training totals, and a layout search: `python -m tests.bench.training`.

Llama-3.1-70B in float32; every degree, count and code of a layout and eight hardware numbers differ from point to
point. One compiled function, chunk after chunk, without compilation; the least time of several counts.
"""

import argparse
import resource
import time

import numpy as np

from jaxroof.jobs.train import TRAIN
from sweeps.ask.cases import case
from sweeps.run.compiled import prepared
from sweeps.run.evaluate import evaluate, gathered
from sweeps.run.points import Points, answers, in_dtype
from sweeps.run.ways import LAYOUTS
from sweeps.studies.train import search, searched

DESIGNS = (
    *("hardware.matrix.bf16", "hardware.memory.hbm.bandwidth", "hardware.memory.hbm.capacity", "hardware.cores.count"),
    *("hardware.links.scale_up.bandwidth", "hardware.links.scale_up.latency", "hardware.links.scale_out.bandwidth"),
    "hardware.links.scale_out.latency",
)
TOTALS = ("iteration_time", "mfu", "training_memory", "feasible")


def columns(scenario, points: int) -> dict[str, np.ndarray]:
    """Random layouts on random designs."""
    from sweeps.ask.axes import leaf

    random = np.random.default_rng(0)
    powers = {"tp": 4, "pp": 5, "cp": 3, "dp": 6}
    found = {f"deployment.{name}": 2.0 ** random.integers(0, most, points) for name, most in powers.items()}
    counts = {"zero": 4, "recompute": 3, "schedule": 5}
    found |= {f"workload.{name}": random.integers(0, most, points) for name, most in counts.items()}
    found["workload.micro_batch"] = 2.0 ** random.integers(0, 4, points)
    found["workload.virtual_stages"] = 2.0 ** random.integers(0, 3, points)
    found |= {path: leaf(scenario, path) * random.uniform(0.5, 2.0, points) for path in DESIGNS}
    return {path: column.astype(np.float32) for path, column in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=1 << 21)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--devices", type=int, default=1024, help="of the search")
    parser.add_argument("--efficiency", default="derated")
    options = parser.parse_args()
    work = {"global_batch": 1024, "seq": 8192}
    place = case("train", "H100-SXM", "Llama-3.1-70B", workload=work, efficiency=options.efficiency, check=False)
    scenario = searched(place.scenario)
    question = answers(TRAIN, TOTALS), in_dtype(scenario, np.dtype("float32"))
    points = max(LAYOUTS.lanes, options.points // LAYOUTS.lanes * LAYOUTS.lanes)
    drawn = Points(np.arange(points), [columns(scenario, points)])
    begun = time.perf_counter()
    prepared(*question, drawn, LAYOUTS)
    compiling = time.perf_counter() - begun
    times = []
    for _ in range(options.repeats):
        begun = time.perf_counter()
        gathered(evaluate(*question, [drawn], LAYOUTS), points)
        times.append(time.perf_counter() - begun)
    rate = points / min(times)
    print(f"totals  {points:,} layouts x designs: {rate / 1e6:.2f} M points/s, compiled in {compiling:.1f} s")
    found = search(place, options.devices)
    print(
        f"search  {options.devices:,} devices: {len(found.layouts):,} layouts in {found.seconds:.2f} s, compiled in "
        f"{found.compile_seconds:.1f} s, {len(found.order):,} feasible"
    )
    print(f"peak RSS {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
