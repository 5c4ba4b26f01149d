"""Two-pass search of a served comparison beside exact search by simulation: `python -m tests.bench.served_search`.

Every random question is asked of at most `PLACES` random places. Exact search simulates each of them up to its largest
load, to 1 %, with the same requests as the second pass. From these loads follows what the choice of either pass costs
beside the cheapest place. Nothing is asserted.
"""

import argparse
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from jaxroof.scheduler import Size
from sweeps.ask.layouts import label
from sweeps.run.compile_cache import compilation_cache
from sweeps.studies.compare.figures import figures
from sweeps.studies.compare.ranking import PRICE, ascending
from sweeps.studies.compare.search import SearchResult, candidate, search
from sweeps.studies.compare.simulate import largest_loads
from tests.bench.served_questions import BLOCK, CONTEXTS, REQUESTS, SEQUENCES, Asked, asked
from tests.bench.served_scores import choice_table, error_table, picture
from tests.bench.together import together

IDLE = 0.1
"""Load of a place that is estimated not to serve, over that of one request at a time: where its simulation begins."""

SIZE = Size(
    slots=SEQUENCES,
    iterations=int(1.25 * REQUESTS),
    block=32,
    rows=16384,
    context=max(CONTEXTS),
    groups=0,
    ranked=False,
)
"""Of every simulation: room for a budget of 8,192 tokens, the sequences and the longest request."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """A question's places and choices; costs are per million output tokens."""

    number: int
    keys: Mapping[str, Any]
    names: Sequence[str]
    unit: Sequence[float]  # USD per million tokens at 1 request/s
    estimated: Sequence[float]  # requests/s
    exact: Sequence[float]  # requests/s, the largest that kept the target
    final: int  # position of the place that the search chose
    simulations: tuple[int, int]  # of exact search, of the second pass

    @property
    def serves(self) -> bool:
        """Whether any place serves."""
        return max(self.exact) > 0.0

    @property
    def first(self) -> int:
        """Position of the place with the lowest estimated cost."""
        return int(np.argmin(_costs(self.unit, self.estimated)))

    @property
    def cheapest(self) -> float:
        """Cost of the cheapest place."""
        return float(np.min(_costs(self.unit, self.exact)))

    def beyond(self, place: int) -> float:
        """Cost of a place over the cheapest one's, less 1; infinite where it does not serve."""
        return float(_costs(self.unit, self.exact)[place] / self.cheapest - 1.0)

    @property
    def errors(self) -> np.ndarray:
        """Estimated over simulated load, less 1, of the places that serve."""
        exact = np.array(self.exact)
        return np.array(self.estimated)[exact > 0.0] / exact[exact > 0.0] - 1.0


def _costs(unit: Sequence[float], load: Sequence[float]) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.array(unit) / np.array(load)


def answer(of: Asked) -> Answer:
    """Exact search of a question, and its search in two passes."""
    estimated = search(of.question, PRICE, simulated=0, among=of.among)
    places = [tuple(map(int, place)) for place in np.argwhere(of.among)]
    loads, simulations = exact(of, estimated, places)
    found = search(of.question, PRICE, among=of.among)
    options, stream = of.question.options, of.question.requests.sample
    output = np.full(of.among.shape, float(np.mean(stream.osl)))
    unit = figures(options, of.among.astype(float), found.estimate, output, None, 0.0)[PRICE]
    chosen = np.unravel_index(np.argmin(ascending(found.arrays[PRICE], PRICE)), of.among.shape)
    return Answer(
        number=of.number,
        keys=of.keys,
        names=[
            f"{options.devices[device].name} {label(options.layouts[layout])} {options.settings[setting].text}".strip()
            for setting, device, layout in places
        ],
        unit=[float(unit[place]) for place in places],
        estimated=[float(found.estimate.load[place]) for place in places],
        exact=loads,
        final=places.index(tuple(map(int, chosen))) if np.isfinite(found.arrays[PRICE]).any() else 0,
        simulations=(simulations, found.simulations),
    )


def exact(of: Asked, found: SearchResult, places: Sequence[tuple[int, int, int]]) -> tuple[list[float], int]:
    """Largest load of every place in requests/s by simulation, and the number of simulations.

    The estimate gives the first load only. A place that is estimated not to serve is followed where it serves when it
    is all but idle.
    """
    estimate = found.estimate
    load = [float(estimate.load[place]) for place in places]
    steps = float(np.mean(np.maximum(of.question.requests.sample.osl - 1.0, 0.0)))
    alone = [1.0 / float(estimate.ttft[place] + steps * estimate.tpot[place]) for place in places]
    begin = np.array([one if one > 0.0 else IDLE * idle for one, idle in zip(load, alone, strict=True)])
    least = np.where(np.array(load) > 0.0, 0.0, begin)
    candidates = [
        candidate(of.question, estimate, place, float(first), REQUESTS)
        for place, first in zip(places, begin, strict=True)
    ]
    made, simulations = largest_loads(candidates, of.question.target, lambda low, high: high > least)
    return [one.load for one in made], simulations


def answers(numbers: Sequence[int], seed: int, kept: pathlib.Path | None) -> list[Answer]:
    """Answers of these questions; those in the file `kept` are read from it, others are added to it."""
    known: dict[int, Answer] = {}
    if kept is not None and kept.exists():
        known = {row["number"]: Answer(**row) for row in json.loads(kept.read_text()).get(str(seed), [])}
    for _, block in itertools.groupby(numbers, lambda number: number // BLOCK):
        start = time.process_time()
        questions = [asked(seed, number) for number in block if number not in known]
        if not questions:
            continue
        for found in together([functools.partial(answer, one) for one in questions], SIZE):
            known[found.number] = found
            print(line(found), flush=True)
        print(f"{time.process_time() - start:.0f} s of a processor", flush=True)
        if kept is not None:
            _write(kept, {str(seed): [dataclasses.asdict(known[one]) for one in sorted(known)]})
    return [known[number] for number in numbers]


def _write(path: pathlib.Path, content: Any) -> None:
    other = path.with_name(f"{path.name}.part")
    other.write_text(json.dumps(content))
    os.replace(other, path)


def line(of: Answer) -> str:
    """An answer in one line."""
    words = f"{of.number:3d} {of.keys['model']:14s} {of.keys['engine']:6s} {len(of.names):2d} places"
    if not of.serves:
        return f"{words}, none serves"
    errors = of.errors
    words += f", first {of.beyond(of.first):+.1%}, final {of.beyond(of.final):+.1%}, load {np.median(errors):+.1%}"
    return f"{words} ({errors.min():+.1%} to {errors.max():+.1%}), {of.simulations[0]} simulations"


def main() -> None:
    """Print the shares of questions within the bounds, and the error of estimated loads."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.served_search", description=__doc__)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first question")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="answers: those it has are not asked again")
    parser.add_argument("-o", "--output", type=pathlib.Path, metavar="FILE", help="picture")
    options = parser.parse_args()
    compilation_cache()
    found = answers(range(options.first, options.first + options.questions), options.seed, options.json)
    console = Console(width=120)
    console.print(choice_table(found), error_table(found))
    if options.output is not None:
        picture(found, options.output)


if __name__ == "__main__":
    main()
