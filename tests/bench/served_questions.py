"""Random questions of a served comparison, and a few places of each that are small enough to be searched exactly."""

import dataclasses
import functools
from typing import Any

import numpy as np

from jaxroof.numerics.tree import structure
from sweeps.ask.engines import ENGINES
from sweeps.studies.compare.candidates import room
from sweeps.studies.compare.question import ServedQuestion, question
from sweeps.studies.compare.ranking import PRICE
from sweeps.studies.compare.search import search
from sweeps.studies.compare.words import AskedComparison

MODELS = {"Llama-3.1-8B": 1, "gpt-oss-120b": 1, "Qwen3-32B": 2, "Qwen3-30B-A3B": 1, "Llama-3.1-70B": 4}
"""Models that are asked for, three dense ones and two mixtures, and the fewest devices that a replica may have."""

BLOCK = 20
"""Questions of one model and engine: they share compiled programs, and simulate together."""

REQUESTS = 1000
"""Of every simulation."""

SEQUENCES = 128
"""Sequences that run at once at most: a fraction of the requests, so that a run comes near its steady state."""

KINDS = 2
"""Kinds of accelerators, of those whose figures have one structure: every kind is a program. The two largest have most
GPUs of NVIDIA and AMD."""

NUMBERS = (1, 1, 3, 5, 5)
"""Accelerators of a question, one of these."""

SHARES = (0.5, 0.9, 0.95, 0.99)
"""Of the requests that have to keep their limits, one of these."""

DEVICES = (1, 2, 4, 8)
"""Devices of a replica at most."""

CONTEXTS = {2048: 0.5, 4096: 0.35, 8192: 0.15}
"""Tokens of the longest request, prompt and answer, and how often: few sizes, for each of which a program is made."""

SIGMA = 0.7
"""Spread of lengths that vary: of their logarithm."""

PLACES = 8
"""Places of a question at most."""

SERVING = 3
"""Places of a question that are estimated to serve at least."""

LASTING = 20.0
"""Time of a run over the longest latency that is allowed, at least. In a shorter one more requests can come than are
answered, up to the share of its time that they may wait; no engine takes such a load for long."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """One random question: keys of `sweeps.studies.compare.question.question`, and the places that are searched."""

    number: int
    keys: dict[str, Any]
    question: ServedQuestion
    among: np.ndarray  # bool, shape [settings, devices, layouts]


def asked(seed: int, number: int) -> Asked:
    """Question `number` of a seed; it does not depend on how many are asked.

    Drawn again where fewer than `SERVING` of its places are estimated to serve.
    """
    random = np.random.default_rng([seed, number])
    block = number // BLOCK
    model = list(MODELS)[block % len(MODELS)]
    engine = list(ENGINES)[(block + 2 * (block // len(MODELS))) % len(ENGINES)]
    offered = accelerators(model, engine)
    while True:
        keys = drawn(random, model, engine, offered)
        load = {"isl": keys["isl"], "osl": keys["osl"], "seed": number, "requests": REQUESTS}
        others = {name: keys[name] for name in ("slo", "share", "policy", "hardware", "max_devices")}
        found = question(AskedComparison(model=model, engine=engine, load=load, **others))
        bounds = room(found.options)
        places = random.permutation(np.argwhere(bounds.legal & (bounds.group_tokens >= found.requests.longest)))
        tried = marked(places[: 3 * PLACES], bounds.legal.shape)
        load = search(found, PRICE, simulated=0, among=tried).estimate.load
        places = [place for place in places if steady(found, load[tuple(place)])][:PLACES]
        if sum(load[tuple(place)] > 0.0 for place in places) >= SERVING:
            return Asked(number, keys, found, marked(np.array(places), bounds.legal.shape))


def marked(places: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """True at these places."""
    found = np.zeros(shape, bool)
    found[tuple(places.T)] = True
    return found


def steady(found: ServedQuestion, load: float) -> bool:
    """Whether a run at this load lasts several times the latencies that are allowed: else no queue shows in it."""
    latencies = [limit.value for limit in found.limits if not limit.name.startswith("tpot")]
    return bool(load * max(latencies) <= REQUESTS / LASTING)


@functools.cache
def accelerators(model: str, engine: str) -> list[str]:
    """Priced accelerators of the largest kinds that run a model on an engine."""
    lengths = {"isl": 1024, "osl": 128}
    asked_of_all = AskedComparison(model=model, slo="ttft=1s", load=lengths, engine=engine, max_devices=1)
    every = question(asked_of_all).options
    kinds: dict[Any, list[str]] = {}
    for place, device in enumerate(every.devices):
        if device.hardware.price is not None:
            kinds.setdefault(structure(every.hardware(place)), []).append(device.name)
    largest = sorted(kinds.values(), key=len, reverse=True)[:KINDS]
    return [name for names in largest for name in names]


def drawn(random: np.random.Generator, model: str, engine: str, offered: list[str]) -> dict[str, Any]:
    """Keys of a random question for a model and an engine, of some of the accelerators that are offered."""
    context = int(random.choice(list(CONTEXTS), p=list(CONTEXTS.values())))
    output = int(context * np.exp(random.uniform(np.log(0.03), np.log(0.5))))
    prompt = context - output
    varied = bool(random.random() < 0.5)
    isl, osl = (lengths(most, varied) for most in (prompt, output))
    return {
        "model": model,
        "engine": engine,
        "hardware": [str(name) for name in random.choice(offered, random.choice(NUMBERS), replace=False)],
        "policy": {"max_sequences": SEQUENCES},
        "max_devices": int(random.choice([number for number in DEVICES if number >= MODELS[model]])),
        "isl": isl,
        "osl": osl,
        **limits(random, output / 3.0 if varied else output),
    }


def lengths(most: int, varied: bool) -> str:
    """Tokens of requests: all of them `most`, or lognormal with a third of it as mean."""
    return f"lognormal:mean={most // 3},sigma={SIGMA},max={most}" if varied else str(most)


def limits(random: np.random.Generator, output: float) -> dict[str, Any]:
    """A target of a random kind. TTFT is limited to 0.3 to 5 s, TPOT to 10 to 100 ms; E2E to what follows from both.

    Args:
      output: tokens of an answer, mean.
    """
    ttft = float(np.exp(random.uniform(np.log(0.3), np.log(5.0))))
    tpot = float(np.exp(random.uniform(np.log(0.010), np.log(0.100))))
    kinds = {
        "ttft and tpot": f"ttft={ttft:.3g}s,tpot={tpot:.3g}s",
        "ttft": f"ttft={ttft:.3g}s",
        "ttft_mean and tpot": f"ttft_mean={ttft:.3g}s,tpot={tpot:.3g}s",
        "e2e": f"e2e={ttft + 2.0 * output * tpot:.3g}s",
        "ttft_p99 and tpot_mean": f"ttft_p99={ttft:.3g}s,tpot_mean={tpot:.3g}s",
    }
    kind = str(random.choice(list(kinds), p=[0.4, 0.1, 0.1, 0.15, 0.25]))
    return {"slo": kinds[kind], "share": float(random.choice(SHARES))}
