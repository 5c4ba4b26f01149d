"""Requests that a config of inference-perf describes: stages of rates, shared system prompts or random lengths."""

import math

import numpy as np

from workloads.streams.kinds import nearest
from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream, alone
from workloads.streams.tree import Branches, branches
from workloads.traces.documents import TraceRecord, yaml_object
from workloads.traces.rows import ReadOptions, stream_name

LOADS = ("constant", "poisson")
DATA = ("shared_prefix", "random", "synthetic")
DISTRIBUTIONS = ("normal", "uniform", "fixed", "lognormal")

LOAD_KEYS = ("type", "stages", "interval", "num_workers", "worker_max_concurrency", "worker_max_tcp_connections")
LOAD_KEYS += ("base_seed", "request_timeout", "circuit_breakers", "lora_traffic_split")
DATA_KEYS = ("type", "path", "shared_prefix", "input_distribution", "output_distribution")
SHARED_KEYS = ("num_unique_system_prompts", "num_groups", "num_users_per_system_prompt", "num_prompts_per_group")
SHARED_KEYS += ("system_prompt_len", "question_len", "output_len", "enable_multi_turn_chat", "seed")
"""Keys that are read, or say nothing about requests; with any other, the workload would be another one."""

PAUSE = 1.0
"""s between stages by default."""


def read(path: str, options: ReadOptions) -> Stream:
    """A stream drawn from `load` and `data` of a config, or from `stages` and `shared_prefix` alone (BLIS's form).

    A stage of `rate` and `duration` has int(rate duration) requests. type constant: exponential intervals scaled to
    fill the duration (the tool's "small amount of random noise"); poisson: times uniform at random, which is a Poisson
    process of that many requests. `interval` s pass between stages.

    shared_prefix: there are num_unique_system_prompts x num_users_per_system_prompt prompts, a system prompt and a
    question each, which are shuffled, sent in turn, and again from the first one: a repeated prompt shares all of
    itself. With enable_multi_turn_chat a user's prompt is all that was said, and the question again.

    Source: kubernetes-sigs/inference-perf: loadgen/load_timer.py, datagen/shared_prefix_datagen.py,
    config/datagen/config.py and config/common.py.
    """
    config = yaml_object(path)
    load = config.table("load") if "load" in config else config
    data = config.table("data") if "data" in config else config
    # Only tables of their own are checked: in BLIS's form the keys stand among others at the top.
    for owner, known, key in ((load, LOAD_KEYS, "load"), (data, DATA_KEYS, "data")):
        if key in config:
            _known(owner, known)
    rng = np.random.Generator(np.random.PCG64(options.seed))
    arrival = _arrivals(load, rng)
    name = stream_name(path)
    source = f"{path}; seed {options.seed}"
    notes = ("the tool waits for a stage's requests before the next stage; here its requests end with its duration",)
    notes = notes if len(load.tables("stages")) > 1 else ()
    kind = data.text("type") if "type" in data else "shared_prefix"
    if kind not in DATA:
        raise ValueError(f"{data.place}: type is {kind!r}{nearest(kind, DATA)}")
    if kind != "shared_prefix":
        isl, osl = (_lengths(data, key, rng, len(arrival)) for key in ("input_distribution", "output_distribution"))
        return Stream(name, arrival, isl, osl, *alone(len(arrival)), source, notes)
    isl, osl, groups = _shared(data.table("shared_prefix"), rng, len(arrival))
    tree = {"along": groups.along, "parent": groups.parent, "base": groups.base}
    return Stream(name, arrival, isl, osl, groups.group, groups.shared, source, notes, **tree)


def _arrivals(load: TraceRecord, rng: np.random.Generator) -> np.ndarray:
    """Arrival times of all stages in s, shape [requests]."""
    kind = load.text("type") if "type" in load else "constant"
    if kind not in LOADS:
        why = ": its arrivals depend on the server" if kind == "concurrent" else nearest(kind, LOADS)
        raise ValueError(f"{load.place}: type is {kind!r}{why}")
    pause = load.number("interval", high=1e9) if "interval" in load else PAUSE
    parts: list[np.ndarray] = []
    begin = 0.0
    for stage in load.tables("stages"):
        rate, duration = stage.number("rate", 0.0, 1e6), stage.number("duration", 1e-9, 1e9)
        count = int(rate * duration)
        if count + sum(map(len, parts)) > MOST_REQUESTS:
            raise ValueError(f"{stage.place}: more than {MOST_REQUESTS} requests, the most that are drawn")
        if kind == "constant":
            # Scaled to fill the stage: the last request arrives at its very end.
            times = np.cumsum(rng.exponential(size=count))
            times = times / times[-1] * duration if count else times
        else:
            # Given their number, the times of a Poisson process are independent and uniform.
            times = np.sort(rng.random(count)) * duration
        parts.append(begin + times)
        begin += duration + pause
    arrival = np.concatenate(parts) if parts else np.zeros(0)
    if not len(arrival):
        raise ValueError(f"{load.place}: its stages have no requests: rate x duration is under 1")
    return arrival


def _shared(shared: TraceRecord, rng: np.random.Generator, requests: int) -> tuple[np.ndarray, np.ndarray, Branches]:
    """isl, osl and groups of requests that go through the prompts in turn. Shape [requests] each."""
    _known(shared, SHARED_KEYS)
    groups, users = (
        _count(shared, *keys)
        for keys in (
            ("num_unique_system_prompts", "num_groups"),
            ("num_users_per_system_prompt", "num_prompts_per_group"),
        )
    )
    prompts = groups * users
    if prompts > MOST_REQUESTS:
        raise ValueError(f"{shared.place}: {groups} x {users} prompts; at most {MOST_REQUESTS} are allowed")
    # One length per system prompt, and one per prompt for question and answer, however often it is sent.
    system = _lengths(shared, "system_prompt_len", rng, groups, low=0)
    question = _lengths(shared, "question_len", rng, prompts, low=0)
    output = _lengths(shared, "output_len", rng, prompts)
    order = rng.permutation(prompts)
    # Requests go through the shuffled prompts again and again; `turn` counts the rounds.
    prompt, turn = order[np.arange(requests) % prompts], np.arange(requests) // prompts
    key = prompt // users
    before, own, osl = system[key], question[prompt], output[prompt]
    # False for the first request of each system prompt, which has nobody to share it with.
    seen = np.ones(requests, bool)
    seen[np.unique(key, return_index=True)[1]] = False
    if shared.values.get("enable_multi_turn_chat", False) not in (True, False):
        raise shared.error("enable_multi_turn_chat", "true or false")
    if shared.values.get("enable_multi_turn_chat", False):
        # Every earlier round added the question and the answer to the conversation.
        said = before + turn * (own + osl)
        isl, common = said + own, np.where(turn > 0, said, np.where(seen, before, 0.0))
    else:
        isl = before + own
        # A repeated prompt shares all of itself, a new one its system prompt.
        common = np.where(turn > 0, isl, np.where(seen, before, 0.0))
    if isl.min() < 1.0 or isl.max() > LARGEST_TOKENS:
        raise ValueError(
            f"{shared.place}: prompts are from {isl.min():g} to {isl.max():g} tokens; 1 to {LARGEST_TOKENS} are allowed"
        )
    # Every prompt branches off behind its system prompt; without one it is a root.
    owner = np.where(system > 0.0, np.arange(groups), -1)[np.arange(prompts) // users]
    parent = np.concatenate([np.full(groups, -1), owner])
    base = np.concatenate([np.zeros(groups), system[np.arange(prompts) // users]])
    # A prompt that is sent again has nothing of its answers; what is said in a chat has them.
    along = None if shared.values.get("enable_multi_turn_chat", False) else isl
    return isl, osl, branches(groups + prompt, parent, base, common, isl + osl, along)


def _known(record: TraceRecord, known: tuple[str, ...]) -> None:
    """ValueError for a key with a value that is not among `known`."""
    for name, value in record.values.items():
        if name not in known and value is not None:
            raise ValueError(f"{record.place}: {name} is not known here{nearest(str(name), known)}")


def _count(record: TraceRecord, *spellings: str) -> int:
    """A positive whole number under any of its names."""
    key = next((key for key in spellings if key in record), spellings[0])
    return record.count(key, 1, 1_000_000)


def _lengths(owner: TraceRecord, key: str, rng: np.random.Generator, count: int, low: int = 1) -> np.ndarray:
    """Lengths from a number, or a table of min, max, mean, std_dev. Whole, at least `low`, shape [count]."""
    if not isinstance(owner.values.get(key), dict):
        return np.full(count, float(owner.count(key, low, LARGEST_TOKENS)))
    table = owner.table(key)
    known = ("min", "max", "mean", "std_dev", "std", "total_count", "type", "distribution")
    _known(table, known)
    kind_key = "distribution" if "distribution" in table else "type"
    kind = table.text(kind_key) if kind_key in table else "normal"
    if kind not in DISTRIBUTIONS:
        raise ValueError(f"{table.place}: {kind_key} is {kind!r}{nearest(kind, DISTRIBUTIONS)}")
    smallest, largest = (table.count(name, low, LARGEST_TOKENS) for name in ("min", "max"))
    if smallest > largest:
        raise ValueError(f"{table.place}: min is {smallest}, above max, {largest}")
    if kind == "uniform":
        return rng.integers(smallest, largest, size=count, endpoint=True).astype(float)
    mean = table.number("mean", low, LARGEST_TOKENS)
    if kind == "fixed":
        return np.full(count, float(max(round(mean), low)))
    spread = table.number("std" if "std" in table else "std_dev", 0.0, LARGEST_TOKENS)
    if kind == "lognormal":
        # Of a lognormal: std^2 = mean^2 (exp(sigma^2) - 1), and its logarithm has the mean ln(mean) - sigma^2 / 2.
        sigma = math.sqrt(math.log1p((spread / max(mean, 1.0)) ** 2))
        drawn = np.exp(math.log(max(mean, 1.0)) - sigma**2 / 2.0 + sigma * rng.standard_normal(count))
    else:
        drawn = mean + spread * rng.standard_normal(count)
    return np.clip(np.rint(drawn), smallest, largest)
