"""Optima of one problem from different starts, and random designs against them: `python -m tests.evidence.optima`.

The search is made from 20 seeds, each with a sample of its own in place of the grid. Then designs are drawn until ten
million keep the constraints: half of them anywhere within the bounds, half around the best optimum at all scales. None
may be better. Any specification of an optimisation will do; it has to have one objective. Optima in a design space are
checked against the rules of its technology too (`tests.evidence.buildable`).
"""

import argparse
import dataclasses
import pathlib
import sys
import time

import numpy as np

from hwspaces import formatted
from hwspaces.accelerators.space import is_space
from sweeps.answers.tables import console, table
from sweeps.run.compile_cache import compilation_cache
from sweeps.studies.optimize.cube import legal_combinations
from sweeps.studies.optimize.descent import KEPT, worst
from sweeps.studies.optimize.goals import unit_of
from sweeps.studies.optimize.optimum import Optimum
from sweeps.studies.optimize.problem import Problem
from sweeps.studies.optimize.search import searched
from sweeps.studies.optimize.spec import made, read
from tests.evidence.buildable import broken
from tests.evidence.harness import command, flag

SPEC = pathlib.Path(__file__).parents[2] / "sweeps" / "specs" / "cheapest.toml"

GRID = 8192
"""Designs that each search begins with, drawn from its seed."""

BLOCK = 1 << 18
"""Random designs that are evaluated at once."""

WIDEST, CLOSEST = 0.3, 1e-4
"""Standard deviations of the designs around the best one, in shares of the ranges, evenly spread in logarithms."""

AGREE, BETTER = 0.01, 1e-5
"""Optima agree within the first; a random design counts as better by more than the second, both relative."""


def optima(problem: Problem, asked, seeds: int) -> list[Optimum]:
    """One optimum per seed."""
    found = []
    for seed in range(seeds):
        effort = dataclasses.replace(asked.search, seed=seed, grid=min(asked.search.grid, GRID))
        found.append(searched(problem, effort, confirm=False))
        print(f"seed {seed}: {found[-1].objectives[0, 0]:.8g}", file=sys.stderr)
    return found


@dataclasses.dataclass
class Drawn:
    """Random designs so far."""

    designs: int = 0
    feasible: int = 0
    best: float = np.inf
    design: np.ndarray | None = None

    def take(self, designs: np.ndarray, objectives: np.ndarray, kept: np.ndarray) -> None:
        """Count these designs."""
        self.designs += len(designs)
        self.feasible += int(kept.sum())
        if kept.any():
            values = np.where(kept, objectives, np.inf)
            first = int(np.argmin(values))
            if values[first] < self.best:
                self.best, self.design = float(values[first]), designs[first]


def drawn(problem: Problem, best: np.ndarray, feasible: int, seconds: float, seed: int = 0) -> tuple[Drawn, Drawn]:
    """Random designs anywhere and around `best`, shape [d], until so many of each keep the constraints."""
    draws = np.random.default_rng(seed)
    chosen = legal_combinations(problem)
    anywhere, around = Drawn(), Drawn()
    for kind, near in ((anywhere, False), (around, True)):
        start = time.perf_counter()
        while kind.feasible < feasible and time.perf_counter() - start < seconds:
            designs = np.empty((BLOCK, len(problem.variables)))
            scale = np.exp(draws.uniform(np.log(CLOSEST), np.log(WIDEST), BLOCK))
            for i, variable in enumerate(problem.variables):
                if variable.choice:
                    continue
                shares = draws.random(BLOCK)
                if near:
                    moves = scale * draws.normal(size=BLOCK) * (draws.random(BLOCK) < 0.6)
                    shares = variable.shares(best[i : i + 1]) + moves
                designs[:, i] = variable.rounded(variable.unit_values(np.clip(shares, 0.0, 1.0)))
            if problem.choices:
                picked = chosen[draws.integers(len(chosen), size=BLOCK)]
                stays = near & (draws.random(BLOCK) < 0.9)
                designs[:, problem.choice] = np.where(stays[:, None], best[problem.choice], picked)
            objectives, constraints = problem.evaluate(designs)
            kind.take(designs, objectives[:, 0], worst(constraints) <= KEPT)
    return anywhere, around


def rules_broken(problem: Problem, space: str, found: list[Optimum]) -> list[str]:
    """Lines of optima that could not be built."""
    member = problem.flat[0]  # members of a mix have one chip
    devices = [member.evaluator.scenario(one.designs[0][member.columns]).hardware for one in found]
    return [f"seed {seed}: {rule}" for seed, device in enumerate(devices) for rule in broken(device, space)]


@command(
    flag("spec", nargs="?", default=SPEC, type=pathlib.Path),
    flag("--seeds", type=int, default=20),
    flag("--samples", type=float, default=1e7, help="random designs that keep the constraints"),
    flag("--seconds", type=float, default=3600.0, help="of each kind of random designs, at most"),
)
def main(options: argparse.Namespace) -> int:
    """Print the table; 1 where optima disagree or could not be built, or where a random design is better."""
    compilation_cache()
    asked = read(options.spec)
    problem = made(asked)
    if len(problem.objectives) > 1:
        raise SystemExit(f"{options.spec}: one objective is needed; there are {', '.join(problem.objective_names)}")
    goal, start = problem.objectives[0], time.perf_counter()
    found = optima(problem, asked, options.seeds)
    values = np.array([one.objectives[0, 0] for one in found])
    seconds = time.perf_counter() - start
    best = found[int(np.argmin(values))]
    anywhere, around = drawn(problem, best.designs[0], int(options.samples / 2), options.seconds)

    out = console()
    unit = unit_of(goal.name)
    heads = [goal.name, "against the best", *problem.names]
    shown = table("seed", *heads, numbers=heads)
    for seed, one in enumerate(found):
        cells = []
        for variable, value in zip(problem.variables, one.designs[0], strict=True):
            label = problem.label(variable, value)
            cells.append(
                label if isinstance(label, str) else formatted(float(label), variable.axis.coordinates[0].unit or "1")
            )
        above = 100.0 * np.abs(values[seed] / values.min() - 1.0)
        figure = formatted(goal.sign * values[seed], unit, 6)
        shown.add_row(str(seed), figure, f"{above:.4f} %", *cells)
    out.print(shown)
    spread = float(np.abs(values / values.min() - 1.0).max())
    out.print(f"{len(found)} optima within {100 * spread:.4f} %, in {seconds:.0f} s")
    better = 0
    for words, kind in (("anywhere within the bounds", anywhere), ("around the best optimum", around)):
        apart = "none kept them"
        if np.isfinite(kind.best):
            better += kind.best < values.min() - BETTER * abs(values.min())
            apart = f"the best is {100 * (kind.best - values.min()) / abs(values.min()):+.5f} % from the best optimum"
        out.print(f"{kind.feasible:,} of {kind.designs:,} random designs {words} keep the constraints; {apart}")
    (device,) = asked.spec.objects["hardware"]
    rules = rules_broken(problem, device, found) if is_space(device) else []
    if is_space(device):
        built = f"{len(found) - len({rule.partition(':')[0] for rule in rules})} of {len(found)} optima"
        out.print(f"{built} keep the rules of {device}: whole numbers, stacks, reticle, shoreline, interposer, cooling")
        print(*rules, sep="\n", end="\n" if rules else "")
    return int(spread > AGREE or better > 0 or bool(rules))


if __name__ == "__main__":
    sys.exit(main())
