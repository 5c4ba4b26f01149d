"""Small random workloads, policies and prices on which two simulators of an engine have to agree."""

import dataclasses
import math
from types import SimpleNamespace

import numpy as np

from jaxroof.batch import ORDERS, Policy
from tests.oracle.serving.drafts import Drafts, Table
from tests.oracle.serving.jobs import Requests
from workloads.streams.streams import generated
from workloads.streams.tree import paths

PLAIN = SimpleNamespace(maximum=max, minimum=min, frexp=math.frexp, floor=math.floor)


def toy_price(batch, rows=None, xp=PLAIN):
    """Device and host s of a step, not linear in anything; `xp` has `maximum` and `minimum`, such as `jax.numpy`.

    Milliseconds: weights 1.1, 0.0125 a row, 0.6 per 1000 tokens of context, 1.3 per 1e6 pairs of prompt attention, 9
    per 1000 tokens of an encoder, 0.07 to 0.09 a drafted token. A part that is None costs what a part of zeros does.
    """
    prompts, past, tokens, sequences, context = 1.0, 0.0, 0.0, 0.0, 0.0
    if batch.prefill is not None:
        prompts, past, tokens = batch.prefill.sequences, batch.prefill.past, batch.prefill.tokens
    if batch.decode is not None:
        sequences, context = batch.decode.sequences, batch.decode.context
    if rows is None:
        rows = tokens + sequences
    if batch.decode is not None and batch.decode.drafted is not None:
        rows = rows + sequences * batch.decode.drafted
    multiplies = xp.maximum(1.1e-3, 1.25e-5 * rows)
    pairs = tokens * (past + 0.5 * tokens) / xp.maximum(prompts, 1.0)
    attention = xp.maximum(1.3e-9 * pairs, 1.7e-8 * (tokens + past)) + xp.maximum(6e-7 * context, 2.1e-5 * sequences)
    device = multiplies + attention + xp.minimum(2e-6 * batch.logits, 3.1e-5)
    if batch.encode is not None:
        device = device + xp.maximum(2.3e-3 * xp.minimum(batch.encode.sequences, 1.0), 9e-6 * batch.encode.tokens)
    if batch.decode is not None and batch.decode.drafted is not None:
        device = device + batch.decode.drafted * (7e-5 + xp.minimum(3e-6 * sequences, 2e-5))
    host = 3e-4 + xp.maximum(1.9e-5 * (prompts - 1.0), 1.3e-5 * batch.logits)
    return device, host


def tabulated_price(batch, rows=None, xp=PLAIN):
    """`toy_price`, but linear in the mean context between four nodes per octave, as prices from tables are.

    `xp` also has `frexp` and `floor`.
    """
    decode = batch.decode
    if decode is None:
        return toy_price(batch, rows, xp)
    sequences = xp.maximum(decode.sequences, 1.0)
    mean = xp.maximum(decode.context / sequences, 1.0)
    mantissa, _ = xp.frexp(mean)
    octave = mean / mantissa / 2.0
    low = octave * (1.0 + xp.floor(4.0 * (2.0 * mantissa - 1.0)) / 4.0)
    share = (mean - low) / (octave / 4.0)
    ends = []
    for context in (low, low + octave / 4.0):
        there = dataclasses.replace(decode, context=decode.sequences * context)
        ends.append(toy_price(dataclasses.replace(batch, decode=there), rows, xp))
    (device, host), (device_after, _) = ends
    return device + share * (device_after - device), host


def case(seed: int) -> tuple[Requests, Policy, int, int, float]:
    """Requests, policy, blocks, clients and think time in s; the same seed gives the same case."""
    rng = np.random.Generator(np.random.PCG64(seed))
    split = rng.random() < 0.15  # long prompts in many parts, so that some are preempted before they are complete
    policy = random_policy(rng, split)
    clients = int(rng.integers(1, 13)) if rng.random() < 0.3 else 0
    think = float(rng.choice([0.0, rng.uniform(0.001, 0.2)])) if clients else 0.0
    requests = _requests(rng, clients > 0, split)
    size = int(policy.block_size)
    longest = np.sort(-(-(requests.isl + requests.osl) // size))
    blocks = int(longest[-1] * rng.uniform(1.0, 1.6 if split else 2.5)) + (int(rng.integers(0, 4)) if size > 1 else 0)
    if rng.random() < 0.2:
        blocks = int(longest[-int(rng.integers(2, 6))])  # some requests are too long
    return requests, policy, blocks, clients, think


def random_drafts(seed: int, most: int) -> Drafts:
    """Up to `most` drafted tokens, right with any probability; one that goes with the case of this seed."""
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    tokens = int(rng.integers(0 if rng.random() < 0.1 else 1, most + 1))
    chance = rng.uniform(0.0, 1.0, most) if rng.random() < 0.5 else np.full(most, rng.choice([0.0, 0.6, 0.9, 1.0]))
    limit = float(rng.integers(0, 10)) if rng.random() < 0.4 else math.inf
    return Drafts(tokens, tuple(float(each) for each in chance), limit, int(rng.integers(1000)))


def random_ways(seed: int, own: Drafts) -> Drafts:
    """The same drafts with a table of their acceptance, lengths by the batch and look-ups, each in two of three cases.

    All have tables of three nodes each and three lengths, so that they are of one structure.
    """
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    sequences, contexts = [1.0, float(rng.integers(2, 5)), 8.0], [1.0, float(rng.integers(20, 80)), 200.0]
    chances = np.broadcast_to(own.acceptance, (3, 3, len(own.acceptance)))
    if rng.random() < 2 / 3:
        chances = np.clip(chances + rng.uniform(-0.5, 0.5, chances.shape), 0.0, 1.0)
    lengths = tuple((start, own.tokens) for start in (1.0, 3.0, 6.0))
    if rng.random() < 2 / 3:
        starts = sorted({1, *map(int, rng.choice(range(2, 11), 2, replace=False))})
        lengths = tuple((float(start), int(rng.integers(0, len(own.acceptance) + 1))) for start in starts)
    match = float(rng.choice([0.0, rng.random(), rng.random()])) if rng.random() < 2 / 3 else 1.0
    return own._replace(table=Table(sequences, contexts, chances.tolist()), lengths=lengths, match=match)


def keep_of(isl, osl, group, shared) -> np.ndarray:
    """Tokens of each request's prompt and output, but for the last, with which a later one of its group begins.

    Shape [requests].
    """
    keep = np.zeros(len(isl))
    for i in range(len(isl)):
        for j in range(i + 1, len(isl)):
            if group[i] >= 0 and group[i] == group[j]:
                keep[i] = max(keep[i], min(shared[j], isl[i] + osl[i] - 1))
    return keep


def random_policy(rng, split: bool) -> Policy:
    preempts = split or rng.random() < 0.85
    swap = float(preempts and rng.random() < 0.35)
    return Policy(
        order=0.0 if split else float(rng.integers(len(ORDERS))),
        token_budget=float(rng.integers(32, 49)) if split else float(np.floor(np.exp(rng.uniform(3.46, 6.24)))),
        max_sequences=float(rng.integers(2, 17)),
        chunked=float(split or rng.random() < 0.6),
        block_size=float(rng.choice([1, 4, 16])),
        watermark=float(rng.choice([0.0, rng.uniform(0.01, 0.05)])),
        reserve=float(not preempts),
        swap=swap,
        swap_time=swap * float(rng.uniform(1e-7, 3e-6)),
        prefix_caching=float(rng.random() < 0.8),
        max_waiting=float(rng.integers(1, 12)) if rng.random() < 0.2 else math.inf,
        graph_step=float(rng.choice([0, 3, 8])),
        graph_limit=float(rng.choice([6, 512])),
        hidden_host=float(rng.random() < 0.4),  # of the price alone: the scheduler has no say
        queue="shortest_first" if rng.random() < 0.25 else "fcfs",
    )


def _requests(rng, closed: bool, split: bool) -> Requests:
    """20 to 60 requests, many of them at the same time."""
    count = int(rng.integers(20, 61))
    gap = float(np.exp(rng.uniform(np.log(3e-4), np.log(3e-2))))  # s
    kind = rng.choice(["alone", "prefixes", "turns", "both"], p=[0.4, 0.2, 0.2, 0.2])
    isl, osl = rng.choice(["1..400", "1..40", "20..120"]), rng.choice(["1..60", "1..8", "30..60"])
    if kind != "alone":
        isl = rng.choice(["1..40", "5..80"])
    if split:
        isl, osl = "60..200", "30..60"
    words = {}
    if kind in ("prefixes", "both"):
        words["prefixes"] = f"groups={rng.integers(1, 6)},tokens={rng.choice(['8..40', '16..120'])},zipf=1"
    if kind in ("turns", "both"):
        words["sessions"] = f"turns=1..4,think={rng.choice([gap, 10 * gap]):.6f}"
    stream = generated(f"poisson:{1 / gap:.6f}", isl, osl, requests=count, seed=int(rng.integers(2**31)), **words)
    arrival = np.array(stream.arrival)
    for i in range(1, count):
        if rng.random() < 0.25:
            arrival[i] = arrival[i - 1]  # a burst
    arrival = np.maximum.accumulate(np.zeros(count) if closed else arrival)
    # One level of groups: conversations of one system prompt are one.
    roots = paths(stream.group, stream.parent, stream.base)[0][:, 0]
    group = roots if kind != "alone" or rng.random() < 0.5 else None
    keep = keep_of(stream.isl, stream.osl, roots, stream.shared)
    return Requests(arrival, stream.isl, stream.osl, group, group if group is None else stream.shared, keep)
