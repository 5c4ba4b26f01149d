"""Small random services of several engines on which two simulators have to agree."""

import dataclasses
import functools
import itertools
import math

import numpy as np

from jaxroof.batch import ORDERS
from jaxroof.numerics.struct import given
from tests.oracle.serving.jobs import Requests
from tests.oracle.serving.random_engines import PLAIN, random_drafts, random_policy, random_ways, tabulated_price
from tests.oracle.serving.routers import ROUTERS
from tests.oracle.serving.scaling import SIGNALS, Rule
from tests.oracle.serving.service import Server, Service
from tests.oracle.serving.tiers import EVICTIONS, Level

DEEPEST = 3


def scaled_price(batch, rows=None, xp=PLAIN, slowness=1.0):
    """`tabulated_price` of an engine whose device takes `slowness` times as long."""
    device, host = tabulated_price(batch, rows, xp)
    return slowness * device, host


def case(
    seed: int,
    engines: int | None = None,
    router: str | None = None,
    pools: bool | None = None,
    trees: bool | None = None,
    turns: bool | None = None,
    priority: bool | None = None,
    unlike: bool | None = None,
    tiers: int = 0,
    drafts: int = 0,
    scaling: bool = False,
    admission: bool = False,
    ways: bool = False,
    encoders: int = 0,
) -> Service:
    """A service; the same words give the same one.

    Args:
      seed: of everything.
      engines: how many; None: 1 to 6.
      router: of requests and hand-overs; None: any.
      pools: whether prompts and the tokens after them have engines of their own; None: in 40 %.
      trees: whether prompts begin alike; None: in 80 %.
      turns: whether requests wait for answers; None: in 50 %.
      priority: whether some requests go before others; None: in 25 %.
      unlike: whether engines differ in policy, blocks and speed; None: in 60 %.
      tiers: how many there are below the caches of engines; all else is the same with any number.
      drafts: tokens per sequence and step at most, another number in every engine; 0: none.
      scaling: whether replicas start and stop; all else is the same.
      admission: whether requests are rejected whose first token would come late; all else is the same.
      encoders: workers that encode the images of requests alone; all else is the same.
      ways: whether what is drafted has tables of acceptance, lengths by the batch and look-ups; all else is the same.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    pools, trees, turns, priority, unlike = (
        bool(rng.random() < share) if word is None else word
        for word, share in ((pools, 0.4), (trees, 0.8), (turns, 0.5), (priority, 0.25), (unlike, 0.6))
    )
    count = int(rng.integers(2 if pools else 1, 7)) if engines is None else engines
    requests = _requests(rng, count, trees, turns, priority)
    any_router, any_decode_router = (str(rng.choice(ROUTERS)) for _ in range(2))
    servers = _servers(rng, requests, _roles(rng, count, pools), priority, unlike)
    if drafts:
        of_engines = enumerate(servers)
        servers = [dataclasses.replace(each, drafts=random_drafts(8 * seed + i, drafts)) for i, each in of_engines]
    if drafts and ways:
        servers = [
            dataclasses.replace(each, drafts=random_ways(8 * seed + i, given(each.drafts, "drafts")))
            for i, each in enumerate(servers)
        ]
    service = Service(
        requests=requests,
        engines=servers,
        router=router or any_router,
        weights=(float(rng.uniform(0.2, 2.0)), float(rng.uniform(0.2, 2.0))),
        decode_router=router or any_decode_router,
        seed=int(rng.integers(1000)),
        delay=float(rng.choice([0.0, rng.uniform(1e-4, 1e-2)])),
        transfer_latency=float(rng.choice([0.0, rng.uniform(1e-4, 5e-3)])),
        layers=int(rng.choice([0, 0, 4, 32])),
    )
    service = _with_tiers(service, np.random.Generator(np.random.PCG64([seed, tiers])), tiers) if tiers else service
    if admission:
        limits = np.random.Generator(np.random.PCG64([seed, 98]))
        each = limits.exponential(3e-3 * float(np.exp(limits.uniform(-1.0, 2.0))), len(service.requests.isl))
        service = dataclasses.replace(service, admission=[float(limit) for limit in each])
    if encoders:
        draws = np.random.Generator(np.random.PCG64([seed, 97]))
        usual = float(np.exp(draws.uniform(np.log(1e-4), np.log(2e-2))))
        times = usual * (1.0 if draws.random() < 0.5 else np.exp(draws.uniform(-0.7, 0.7, encoders)))
        sent = float(draws.choice([0.0, draws.uniform(1e-5, 5e-3)]))
        service = dataclasses.replace(
            service, encoders=[float(each) for each in np.broadcast_to(times, encoders)], encoder_transfer=sent
        )
    if not scaling:
        return service
    return dataclasses.replace(service, scaling=_scaling(np.random.Generator(np.random.PCG64([seed, 99])), service))


def _roles(rng, count: int, pools: bool) -> list[str]:
    """Roles in any order, both of a pair at least once; now and then an engine of both kinds of work among them."""
    if not pools:
        return ["whole"] * count
    rest = rng.choice(["prefill", "decode", "whole"], size=count - 2, p=[0.45, 0.45, 0.1])
    return [str(role) for role in rng.permutation(["prefill", "decode", *rest])]


def _servers(rng, requests: Requests, roles: list[str], priority: bool, unlike: bool) -> list[Server]:
    """Engines with room for little more than the longest request, or for less."""
    split = rng.random() < 0.1
    first = random_policy(rng, split)
    size = int(first.block_size)
    longest = np.sort(-(-(np.array(requests.isl) + np.array(requests.osl)) // size))
    prompts = np.sort(-(-(np.array(requests.isl) + 1) // size))
    small = rng.random() < 0.2  # some requests are too long
    # One draw for all engines that are alike, else one for each.
    draws, servers = [], []
    for role in roles:
        if unlike or not draws:
            policy = dataclasses.replace(random_policy(rng, split), block_size=first.block_size) if draws else first
            if priority and rng.random() < 0.8:
                policy = dataclasses.replace(policy, queue="priority")
            slowness = float(np.exp(rng.uniform(-0.7, 0.7))) if unlike else 1.0
            draws.append((policy, slowness, rng.uniform(1.0, 2.5), float(np.exp(rng.uniform(8.0, 14.0)))))
        policy, slowness, room, rate = draws[-1]
        if len(roles) % 2:  # a limit of their own for those that decode what others computed
            policy = dataclasses.replace(policy, decode_sequences=float(-(-policy.max_sequences // 2)))
        needs = prompts if role == "prefill" else longest
        blocks = int(needs[-int(rng.integers(2, 6))] if small and rng.random() < 0.5 else needs[-1] * room)
        rate = math.inf if rng.random() < 0.1 else rate
        server = Server(policy, blocks, functools.partial(scaled_price, slowness=slowness), role)
        servers.append(dataclasses.replace(server, weight=1.0 / slowness, pace=2e-5 * slowness, rate=rate))
    assert all(0 <= server.policy.order < len(ORDERS) for server in servers)
    return servers


def _with_tiers(service: Service, rng, count: int) -> Service:
    """The service with tiers that are often too small, below caches that most engines have."""
    blocks = [engine.blocks for engine in service.engines]
    kinds = [
        {
            "capacity": int(rng.choice(blocks) * np.exp(rng.uniform(-2.0, 1.0))) + int(rng.random() < 0.5),
            "through": bool(rng.random() < 0.5),
            "shared": bool(rng.random() < 0.15 + 0.3 * i),
            "eviction": str(rng.choice(EVICTIONS, p=[0.6, 0.2, 0.2])),
        }
        for i in range(count)
    ]
    engines = []
    for engine in service.engines:
        levels = []
        for kind in kinds:
            bandwidth = math.inf if rng.random() < 0.1 else float(np.exp(rng.uniform(9.0, 14.0)))
            latency = float(rng.choice([0.0, rng.uniform(1e-5, 2e-3)]))
            own = {} if kind["shared"] else {"capacity": max(int(kind["capacity"] * rng.uniform(0.5, 1.5)), 0)}
            levels.append(Level(bandwidth=bandwidth, latency=latency, **(kind | own)))
        policy = dataclasses.replace(engine.policy, prefix_caching=float(rng.random() < 0.95))
        engines.append(dataclasses.replace(engine, policy=policy, tiers=levels))
    overlap = float(rng.choice([0.0, 1.0, rng.random()]))
    return dataclasses.replace(service, engines=engines, overlap=overlap, tiers_known=bool(rng.random() < 0.6))


def _scaling(rng, service: Service) -> Rule:
    """A rule that is evaluated often, with targets that are little."""
    span, count = max(service.requests.arrival) + 1e-3, len(service.engines)
    signal = str(rng.choice(SIGNALS))
    usual = {"queue": 4.0, "queue_tokens": 200.0, "rate": len(service.requests.isl) / span / count, "ttft": 0.01}
    every = max(span / float(rng.integers(3, 60)), 2e-3)
    least = int(rng.integers(1, count + 1)) if rng.random() < 0.3 else 1
    return Rule(
        signal=signal,
        target=usual[signal] * float(np.exp(rng.uniform(-1.5, 1.0))),
        least=least,
        most=count if rng.random() < 0.7 else int(rng.integers(least, count + 1)),
        every=every,
        start=float(rng.choice([0.0, rng.uniform(0.0, 0.3 * span)])),
        idle=float(rng.choice([0.0, 3.0 * every, rng.uniform(0.0, 0.2 * span)])),
    )


# Requests and the tree of their prompts.


@dataclasses.dataclass
class _Node:
    """A run of tokens that goes on from one of its parent's."""

    index: int
    parent: "_Node | None"
    start: int  # tokens of the path before it
    length: int  # tokens that were said of the path so far

    @property
    def path(self) -> list["_Node"]:
        return [*(self.parent.path if self.parent else []), self]


@dataclasses.dataclass
class _Said:
    """A request as it is drawn; `along` of its prompt's tokens are those of its path, the others are only its own."""

    time: float
    node: _Node | None
    along: int
    isl: int
    osl: int
    spoken: bool = False  # its output goes on along the path
    before: "_Said | None" = None  # the turn whose answer it waits for
    pause: float = 0.0


def _requests(rng, engines: int, trees: bool, turns: bool, priority: bool) -> Requests:
    """20 to 60 requests, many of them at the same time."""
    count = int(rng.integers(20, 61))
    gap = float(np.exp(rng.uniform(np.log(3e-4), np.log(3e-2)))) / engines  # s
    said = _said(rng, count, gap, trees, turns)
    said.sort(key=lambda one: one.time)  # a turn is later than the one before it
    depth = int(rng.integers(1, DEEPEST + 1)) if not trees else max(len(_path(one)) for one in said) or 1
    index = {id(one): i for i, one in enumerate(said)}
    shared, keep = _alike(said)
    return Requests(
        arrival=[one.time for one in said],
        isl=[one.isl for one in said],
        osl=[one.osl for one in said],
        shared=shared,
        keep=keep,
        after=[-1 if one.before is None else index[id(one.before)] for one in said],
        pause=[one.pause for one in said],
        priority=[int(rng.integers(0, 3)) if priority else 0 for _ in said],
        nodes=[_padded([node.index for node in _path(one)], depth, -1) for one in said],
        starts=[_padded([node.start for node in _path(one)], depth, 0) for one in said],
    )


def _said(rng, count: int, gap: float, trees: bool, turns: bool) -> list[_Said]:
    """Lone requests, questions about a prompt that is there, and conversations; some of these go off another one."""
    isl, osl = _lengths(rng, [(1, 60), (5, 80), (20, 200)]), _lengths(rng, [(1, 8), (1, 60), (30, 60)])
    deepest = int(rng.integers(1, DEEPEST + 1))
    nodes: list[_Node] = []
    said: list[_Said] = []
    time = 0.0
    for i in range(int(rng.integers(1, 4)) if trees else 0):
        nodes.append(_Node(i, None, 0, int(rng.integers(8, 80))))
    while len(said) < count:
        time += 0.0 if rng.random() < 0.25 else float(rng.exponential(gap))  # or a burst
        kind = rng.choice(["lone", "question", "talk"], p=[0.2, 0.4, 0.4] if trees else [0.5, 0.0, 0.5])
        if kind == "lone":
            said.append(_Said(time, None, 0, isl(), osl()))
        elif kind == "question":
            node = _grown(rng, nodes, deepest) if rng.random() < 0.3 else nodes[int(rng.integers(len(nodes)))]
            along = int(rng.integers(node.start, node.length + 1)) if rng.random() < 0.3 else node.length
            said.append(_Said(time, node, along, along + (isl() if along == 0 or rng.random() < 0.8 else 0), osl()))
        else:
            said += _talk(rng, time, gap, _grown(rng, nodes, deepest) if trees else None, turns, isl, osl)
    return said[:count]


def _grown(rng, nodes: list[_Node], deepest: int) -> _Node:
    """A new node, from anywhere along another one, most often from its end."""
    parent = nodes[int(rng.integers(len(nodes)))]
    if len(parent.path) >= deepest:
        nodes.append(_Node(len(nodes), None, 0, int(rng.integers(8, 80))))
        return nodes[-1]
    start = int(rng.integers(parent.start, parent.length + 1)) if rng.random() < 0.4 else parent.length
    nodes.append(_Node(len(nodes), parent, start, start + int(rng.integers(1, 30))))
    return nodes[-1]


def _talk(rng, time: float, gap: float, node: _Node | None, turns: bool, isl, osl) -> list[_Said]:
    """One to four turns; each begins with all that was said, where it has a node, and may wait for the one before."""
    said: list[_Said] = []
    for _ in range(int(rng.integers(1, 5))):
        pause = float(rng.choice([0.0, rng.exponential(gap), rng.exponential(20 * gap)]))
        time += pause
        length = isl() if node is None else node.length
        one = _Said(time, node, 0 if node is None else length, length, osl(), spoken=node is not None)
        if turns and said:
            one.before, one.pause = said[-1], pause
        if node is not None:
            node.length += one.osl + int(rng.integers(1, 20))
        said.append(one)
    return said


def _lengths(rng, ranges):
    low, high = ranges[int(rng.integers(len(ranges)))]
    return lambda: int(rng.integers(low, high + 1))


def _alike(said: list[_Said]) -> tuple[list[int], list[int]]:
    """Tokens with which an earlier request began, and with which a later one does, of prompt and output but the last.

    Every token is compared: one of a node is the node and the place, one that only a request has is the request's.
    """
    tokens = []
    for i, one in enumerate(said):
        path, length = _path(one), one.isl + one.osl - 1
        ends = [*(node.start for node in path[1:]), math.inf]
        along = length if one.spoken else one.along
        known = [next(node.index for node, end in zip(path, ends, strict=True) if k < end) for k in range(along)]
        tokens.append([*known, *itertools.repeat(-1 - i, length - along)])
    shared, keep = [0] * len(said), [0] * len(said)
    for i, j in itertools.combinations(range(len(said)), 2):
        pairs = zip(tokens[i], tokens[j][: said[j].isl], strict=False)
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        shared[j], keep[i] = max(shared[j], common), max(keep[i], common)
    return shared, keep


def _path(one: _Said) -> list[_Node]:
    return one.node.path if one.node else []


def _padded(values: list[int], depth: int, fill: int) -> list[int]:
    return values + [fill] * (depth - len(values))
