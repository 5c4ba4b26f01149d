"""Served comparisons with pools beside exact search by simulation: `python -m tests.bench.served_pools`.

Every random question is asked of `sweeps.compare`, and of an exact search, which simulates every replica and every pair
of pools with the same requests up to its largest load, to 1 %: in the order of what it would cost at its estimated
load, those whose estimate is at most `MARGIN` times as dear as the best one of all. Of a question with several
accelerators each one is asked about alone, too: its best row has to be as good. Nothing is asserted.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import time
from typing import Any

import numpy as np

from sweeps.run.compile_cache import compilation_cache
from sweeps.studies.compare.compare import comparison
from sweeps.studies.compare.disaggregated import pool_rows
from sweeps.studies.compare.figures import figures
from sweeps.studies.compare.question import ServedQuestion, question
from sweeps.studies.compare.ranking import PRICE
from sweeps.studies.compare.search import SearchResult, candidate, search
from sweeps.studies.compare.simulate import largest_loads
from sweeps.studies.compare.simulated_pools import common_room_of, simulated
from sweeps.studies.compare.words import read

MODELS = ("Llama-3.1-8B", "gpt-oss-20b")
ACCELERATORS = ("H100-SXM", "H200-SXM", "A100-SXM-80GB", "L40S", "MI300X")
NUMBERS = (1, 1, 2, 3)
"""Accelerators of a question, one of these."""

DEVICES = (2, 3, 4)
"""Devices of a unit at most, one of these."""

REQUESTS, SEQUENCES = 400, 64
"""Of every simulation; sequences of a replica at most, so that a run comes near its steady state."""

MARGIN, PAIRS = 1.5, 24
"""Estimated cost over the best one of what exact search simulates; pairs of an accelerator at most."""

SHARES = (0.5, 0.95, 0.99)


@dataclasses.dataclass(frozen=True)
class Answer:
    """One question, and what both searches say; costs in US dollars per million output tokens."""

    number: int
    words: dict[str, Any]
    found: float  # of the first row; infinite: none
    first: str  # it in words
    exact: float
    best: str
    pools: tuple[bool, bool]  # whether the first row, and the best one of exact search, has pools
    alone: float  # worst ratio of a row in company to that of its accelerator alone; 1: the same
    simulations: tuple[int, int]  # of the comparison, of exact search
    seconds: tuple[float, float]

    @property
    def beyond(self) -> float:
        """Cost of the first row over the best one's, less 1."""
        if not math.isfinite(self.exact):
            return 0.0 if not math.isfinite(self.found) else -1.0
        return self.found / self.exact - 1.0


def drawn(seed: int, number: int) -> dict[str, Any]:
    """Words of question `number`."""
    random = np.random.default_rng([seed, number])
    isl, osl = int(random.choice([512, 1024, 2048])), int(random.choice([32, 64, 128]))
    ttft = float(np.exp(random.uniform(np.log(0.1), np.log(2.0))))
    tpot = float(np.exp(random.uniform(np.log(0.009), np.log(0.050))))
    kinds = (
        f"ttft={ttft:.3g}s,tpot={tpot:.3g}s",
        f"ttft_p50={ttft:.3g}s,tpot_p50={tpot:.3g}s",
        f"ttft_p99={ttft:.3g}s,tpot_p99={tpot:.3g}s",
        f"ttft_p99={ttft:.3g}s,tpot_mean={tpot:.3g}s",
        f"e2e={ttft + osl * tpot:.3g}s",
    )
    return {
        "model": str(random.choice(MODELS)),
        "hardware": [str(name) for name in random.choice(ACCELERATORS, random.choice(NUMBERS), replace=False)],
        "max_devices": int(random.choice(DEVICES)),
        "isl": str(isl),
        "osl": str(osl),
        "slo": kinds[int(random.integers(len(kinds)))],
        "share": float(random.choice(SHARES)),
        "policy": {"max_sequences": SEQUENCES, "token_budget": [2048, 8192]},
        "requests": REQUESTS,
    }


def answer(seed: int, number: int) -> Answer:
    """What both searches say of a question."""
    words = drawn(seed, number)
    begin = time.perf_counter()
    wanted = read(words)
    found = comparison(wanted, _silent)
    middle = time.perf_counter()
    asked = question(wanted)
    best, name, pools, simulations = exact(asked)
    end = time.perf_counter()
    first = found.rows[0] if found.rows else None
    return Answer(
        number=number,
        words=words,
        found=math.inf if first is None else first.metrics[PRICE],
        first="" if first is None else f"{first.hardware} {first.layout} {first.setting}",
        exact=best,
        best=name,
        pools=(first is not None and first.prefill is not None, pools),
        alone=_alone(words, found) if len(words["hardware"]) > 1 else 1.0,
        simulations=(found.simulations, simulations),
        seconds=(middle - begin, end - middle),
    )


def exact(asked: ServedQuestion) -> tuple[float, str, bool, int]:
    """Cost of the best deployment by simulation, its name, whether it has pools, and the number of simulations."""
    estimated = search(asked, PRICE, simulated=0)
    rows = pool_rows(asked, estimated.first_pass, PRICE, each=PAIRS)
    options = asked.options
    output = np.full(estimated.wanted.shape, float(np.mean(asked.requests.sample.osl)))
    cost = figures(options, estimated.estimate.load, estimated.estimate, output, None, 0.0)[PRICE]
    known = [float(value) for value in cost[np.isfinite(cost)]] + [row.metrics[PRICE] for row in rows]
    bar = MARGIN * min(known, default=math.inf)
    places = [tuple(map(int, place)) for place in np.argwhere(np.isfinite(cost) & (cost <= bar))]
    best, name, pools, simulations = _replicas(asked, estimated, places, cost)
    rows = tuple(row for row in rows if row.metrics[PRICE] <= bar)
    room = common_room_of(asked, rows)
    for row in rows:
        made, number = simulated(asked, row, None, 0.0, room=room)
        simulations += number
        if made.simulated and made.metrics[PRICE] < best:
            best, name, pools = made.metrics[PRICE], f"{made.hardware} {made.layout} {made.setting}", True
    return best, name, pools, simulations


def _replicas(
    asked: ServedQuestion, found: SearchResult, places: list[tuple[int, ...]], cost: np.ndarray
) -> tuple[float, str, bool, int]:
    """As of `exact`, of replicas that both prefill and decode."""
    if not places:
        return math.inf, "", False, 0
    load = found.estimate.load
    candidates = [candidate(asked, found.estimate, place, float(load[place]), REQUESTS) for place in places]
    made, simulations = largest_loads(candidates, asked.target, lambda low, high: np.ones(len(low), bool))
    # Cost is one over the load.
    pairs = zip(places, made, strict=True)
    costs = [cost[place] * load[place] / one.load if one.load else math.inf for place, one in pairs]
    i = int(np.argmin(costs))
    setting, device, layout = places[i]
    options = asked.options
    words = f"{options.devices[device].name} {options.layouts[layout]} {options.settings[setting].text}"
    return float(costs[i]), words, False, simulations


def _alone(words: dict[str, Any], found: Any) -> float:
    """Largest cost of an accelerator's best row in company over that alone."""
    worst = 1.0
    for name in words["hardware"]:
        own = comparison(read({**words, "hardware": [name]}), _silent).rows
        here = [row.metrics[PRICE] for row in found.rows if row.hardware == name]
        if own:
            worst = max(worst, (here[0] if here else math.inf) / own[0].metrics[PRICE])
    return worst


def _silent(simulations: int) -> Any:
    return lambda done: None


def line(of: Answer) -> str:
    """An answer in one line."""
    words = of.words
    kind = f"{words['model']} {len(words['hardware'])} x {words['max_devices']} {words['isl']}+{words['osl']}"
    costs = f"{of.found:.4g} of {of.exact:.4g} ({of.beyond:+.2%})"
    pools = "/".join("pools" if one else "one" for one in of.pools)
    seconds = " and ".join(f"{one:.0f}" for one in of.seconds)
    said = f"{of.number:3d} {kind} {words['slo']} {words['share']}: {costs} {pools}, alone {of.alone:.3f}"
    return f"{said}, {of.simulations[0]} and {of.simulations[1]} simulations in {seconds} s; {of.first} | {of.best}"


def _known(path: pathlib.Path | None) -> dict[int, Answer]:
    """Answers of an earlier run by number."""
    lines = path.read_text().splitlines() if path is not None and path.exists() else []
    answers = [Answer(**json.loads(text)) for text in lines]
    return {one.number: one for one in answers}


def main() -> None:
    """Print every answer, and the shares of questions within 1 % and 5 %."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.served_pools", description=__doc__)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    help_text = "answers, one a line, are added to it; those that are there are not asked again"
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help=help_text)
    options = parser.parse_args()
    compilation_cache()
    known = _known(options.json)
    found = []
    for number in range(options.first, options.first + options.questions):
        found.append(known[number] if number in known else answer(options.seed, number))
        print(line(found[-1]), flush=True)
        if options.json is not None and number not in known:
            with options.json.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(found[-1])) + "\n")
    beyond = np.array([one.beyond for one in found if math.isfinite(one.exact)])
    shares = ", ".join(f"{np.mean(beyond <= most):.1%} within {most:.0%}" for most in (0.01, 0.05))
    pools = sum(one.pools[1] for one in found)
    print(f"{len(beyond)} questions that something serves, {pools} best by pools: {shares}, worst {beyond.max():+.1%}")
    company = [one.alone for one in found if len(one.words["hardware"]) > 1]
    worse = sum(one > 1.0 + 1e-9 for one in company)
    print(f"{len(company)} questions of several accelerators: in {worse} one has a worse row than asked about alone")


if __name__ == "__main__":
    main()
