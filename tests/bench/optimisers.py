"""Evaluations that jaxroof's gradients, random search, TPE, a genetic algorithm and a GP need for the same design:
`python -m tests.bench.optimisers`.

Three problems of 9 to 10 variables, discrete ones among them. Every method has the same budget and as many seeds;
printed are medians. A method whose library is missing is left out, and said so. Nothing is asserted.
"""

import argparse
import pathlib
import time

import numpy as np
from rich.console import Console
from rich.table import Table

from tests.bench.rivals import METHODS

HARDWARE = {
    "hardware.memory.hbm.bandwidth": {"from": "0.5TB/s", "to": "16TB/s"},
    "hardware.memory.hbm.capacity": {"from": "16GB", "to": "512GB"},
    "hardware.cores.count": {"from": 16, "to": 512},
    "hardware.memory.l2.capacity": {"from": "4MB", "to": "512MB"},
    "hardware.links.scale_up.bandwidth": {"from": "25GB/s", "to": "1800GB/s"},
    "hardware.matrix.bf16": {"from": "100TFLOP/s", "to": "4000TFLOP/s"},
    "hardware.matrix.fp8": {"from": "200TFLOP/s", "to": "8000TFLOP/s"},
}
COMMON = {
    "hardware": "H100-SXM",
    "model": "Llama-3.1-70B",
    "efficiency": "derated",
    "weights": ["bf16", "fp8"],
    "deployment": {"tp": [1, 2, 4, 8]},
    "workload": {"isl": 1024, "osl": 256},
    "axes": HARDWARE | {"workload.batch": {"from": 1, "to": 512}},
}
PROBLEMS = {
    "energy-delay product": COMMON
    | {
        "optimize": {"minimize": "energy_delay_product"},
        "constraints": {"die_area": {"max": 8e-4}, "ttft": {"max": "2s"}},
    },
    "cost of tokens": COMMON
    | {
        "optimize": {"minimize": "owning_usd_per_million_tokens"},
        "constraints": {"ttft": {"max": "1s"}, "tpot": {"max": "20ms"}},
    },
    "smallest die": COMMON
    | {
        "workload": {"batch": 32, "isl": 1024, "osl": 256},
        "deployment": {"tp": [1, 2, 4]},
        "axes": HARDWARE,
        "optimize": {"minimize": "die_area"},
        "constraints": {"ttft": {"max": "1s"}, "tpot": {"max": "25ms"}},
    },
}
"""The product of energy and delay per token on at most 800 mm2; the cheapest tokens under limits of TTFT and TPOT; the
smallest die of which at most four serve 32 users under such limits."""

OURS = "gradients"
UNSEEN = 10
"""First of our seeds: the constants of the search were chosen on these problems with seeds below it."""
REPORTED = (20, 50, 100, 200, 500)
TIMED = 64, 20
"""Designs of a call, and calls, by which a gradient's cost is measured."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.optimisers", description=__doc__)
    parser.add_argument("--budget", type=int, default=500, help="evaluations of every method")
    parser.add_argument(
        "--gp-budget", type=int, default=100, help="evaluations of the GP, which takes seconds for each"
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", default=",".join(METHODS), help="rivals, comma-separated")
    parser.add_argument("--kept", type=pathlib.Path, help="a folder that keeps runs, to go on from")
    parser.add_argument("--plots", type=pathlib.Path, metavar="DIR", help="save a picture here")
    options = parser.parse_args()
    curves = {name: curves_of(name, options) for name in PROBLEMS}
    if options.plots is not None:
        options.plots.mkdir(parents=True, exist_ok=True)
        picture(curves, options.plots / "optimisers.png")


def curves_of(name: str, options: argparse.Namespace) -> dict[str, np.ndarray]:
    """The best value so far of every method, shapes [seeds, evaluations]; prints their table."""
    import sweeps

    problem = sweeps.problem(PROBLEMS[name])
    found = {}
    for method in (OURS, *options.methods.split(",")):
        budget = min(options.gp_budget, options.budget) if method == "gp" else options.budget
        try:
            runs = [_run(problem, name, method, budget, seed, options.kept) for seed in range(options.seeds)]
        except ImportError as error:
            print(f"{name}: {method} is left out: {error}")
            continue
        found[method] = np.minimum.accumulate(np.array(runs), axis=1)
    shown(name, found, gradient_cost(problem))
    return found


def gradient_cost(problem) -> float:
    """Time of a design's values with all gradients over that of its values alone, both in calls of the same size."""
    from sweeps.run.ways import designs as designs_way

    designs = np.tile(np.sqrt(np.maximum(problem.lower, 1e-9) * problem.upper), (TIMED[0], 1))
    designs = np.clip(designs, problem.lower, problem.upper)
    seconds = []
    (only,) = problem.flat
    for function in (only.evaluator.values, only.evaluator.slopes):
        function(designs, designs_way(gradients=True))
        laps = []
        for _ in range(TIMED[1]):
            start = time.perf_counter()
            function(designs, designs_way(gradients=True))
            laps.append(time.perf_counter() - start)
        seconds.append(min(laps))
    return seconds[1] / seconds[0]


def reached(curve: np.ndarray, value: float) -> float:
    """Evaluations until a curve is at `value` or below; infinite where it never is."""
    below = np.flatnonzero(curve <= value)
    return below[0] + 1 if len(below) else np.inf


def shown(name: str, found: dict[str, np.ndarray], cost: float) -> None:
    """A table: the median best value by evaluations, and how many fewer our gradients need for the same."""
    ours = np.median(found[OURS], axis=0)
    table = Table(title=f"{name}: median best value of {len(found[OURS])} seeds; a gradient costs {cost:.1f} values")
    for column in ("method", *(f"at {n}" for n in REPORTED), "its last value after", "ours after", "ratio", "by cost"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for method, curves in found.items():
        median = np.median(curves, axis=0)
        cells = [f"{median[n - 1]:.4g}" if n <= len(median) else "" for n in REPORTED]
        if method != OURS and np.isfinite(median[-1]):
            theirs, mine = reached(median, median[-1]), reached(ours, median[-1])
            cells += [f"{theirs:g}", f"{mine:g}", f"{theirs / mine:.1f}x", f"{theirs / mine / cost:.1f}x"]
        elif method != OURS:
            cells += ["no design", f"{reached(ours, np.finfo(float).max):g}", "", ""]
        table.add_row(method, *cells)
    Console(width=150).print(table)


def picture(curves: dict[str, dict[str, np.ndarray]], path: pathlib.Path) -> None:
    """Best value against evaluations: medians, and the range over seeds as a band."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, sides = plt.subplots(1, len(curves), figsize=(5 * len(curves), 4), layout="constrained")
    for side, (name, found) in zip(np.atleast_1d(sides), curves.items(), strict=True):
        least = min(curve.min() for curve in found.values())
        for number, (method, runs) in enumerate(found.items()):
            steps = np.arange(1, runs.shape[1] + 1)
            finite = np.where(np.isfinite(runs), runs / least, np.nan)
            median = np.median(runs, axis=0) / least
            colour = f"C{number}"
            side.plot(steps, np.where(np.isfinite(median), median, np.nan), color=colour, label=method)
            known = np.isfinite(finite).all(axis=0)
            low, high = finite[:, known].min(axis=0), finite[:, known].max(axis=0)
            side.fill_between(steps[known], low, high, color=colour, alpha=0.15, linewidth=0)
        side.set(
            title=name,
            xlabel="evaluations",
            xscale="log",
            yscale="log",
            xlim=(5, max(run.shape[1] for run in found.values())),
            ylim=(0.95, 12),
        )
        side.set_yticks([1, 2, 5, 10], ["1", "2", "5", "10"])
        side.xaxis.set_minor_formatter("")
        side.grid(alpha=0.3)
    np.atleast_1d(sides)[0].set_ylabel("best value so far / best known")
    np.atleast_1d(sides)[0].legend(frameon=False)
    figure.savefig(path, dpi=130)


def _run(problem, name: str, method: str, budget: int, seed: int, kept: pathlib.Path | None) -> np.ndarray:
    """Values of one run in the order of its evaluations, infinite where a constraint is not kept."""
    path = None if kept is None else kept / f"{name.replace(' ', '_')}.{method}.{seed}.{budget}.npy"
    if path is not None and path.exists():
        return np.load(path)
    if method == OURS:
        from sweeps.studies.optimize.frugal import frugal

        values = frugal(problem, budget, UNSEEN + seed).values
    else:
        values = METHODS[method](problem, budget, seed)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)
    return values


if __name__ == "__main__":
    main()
