"""Pools of equal replicas that a row of a comparison describes: model, devices, degrees, precisions, scheduler."""

import dataclasses
import math
import os
import re
from collections.abc import Mapping
from typing import Any

import hwspaces
import workloads
from hwspaces import HardwareEntry
from hwspaces.accelerators.prices import servers
from jaxroof.batch import Policy
from jaxroof.deployment import GROUPS, request_groups
from jaxroof.memory.capacity import reserved_bytes, sequence_capacity
from jaxroof.memory.reserve import memory_share
from sweeps.ask.cases import Case, cache_precision
from sweeps.run.simulated.policies import chosen_policy, profiled, require_priced, require_room
from sweeps.run.simulated.spec import serve_spec
from workloads.streams.stream import LARGEST_TOKENS


@dataclasses.dataclass(frozen=True)
class Vendor:
    """One vendor's devices in a cluster."""

    resource: str  # name of the resource that its Kubernetes device plugin offers
    host: int  # devices of the usual host


VENDORS = {
    "NVIDIA": Vendor("nvidia.com/gpu", 8),  # NVIDIA k8s-device-plugin; HGX and DGX boards
    "AMD": Vendor("amd.com/gpu", 8),  # ROCm k8s-device-plugin; OAM boards
    "Google": Vendor("google.com/tpu", 4),  # TPUs in GKE; ct5p and tpu7x machines
    "Intel": Vendor("habana.ai/gaudi", 8),  # Intel Gaudi device plugin; HLS boards
    "AWS": Vendor("aws.amazon.com/neuron", 16),  # Neuron device plugin; trn1.32xlarge and trn2.48xlarge
}
"""Vendor -> its devices in a cluster. Sources: documentation of the device plugins and of the hosts, November 2026."""

OTHER_RESOURCES = {"Arc-Pro-B60": "gpu.intel.com/xe"}  # Intel GPU device plugin
"""Devices that their vendor's other device plugin offers."""

OTHER_HOSTS = {
    **dict.fromkeys(("TPU-v5e", "TPU-v6e"), 8),  # ct5lp-hightpu-8t, ct6e-standard-8t
    "Inferentia2": 12,  # inf2.48xlarge
}
"""Devices of one host of accelerators that are rented one by one, where it is not their vendor's usual number."""

UNKNOWN_HOST = 8
"""Devices of one host that are assumed where nothing is known of it."""


def host_devices(entry: HardwareEntry) -> int:
    """Devices of one host of the accelerator."""
    vendor = VENDORS.get(entry.vendor or "")
    known = OTHER_HOSTS | dict(servers())
    return known.get(entry.name, vendor.host if vendor else UNKNOWN_HOST)


def resource(name: str, vendor: str | None) -> str:
    """Name of the resource that a Kubernetes container asks for.

    Raises:
      ValueError: one line, for a vendor whose device plugin is not known here.
    """
    if name in OTHER_RESOURCES:
        return OTHER_RESOURCES[name]
    if vendor not in VENDORS:
        raise ValueError(
            f"{name}: the Kubernetes resource of {vendor or 'an unknown vendor'} is not known; known vendors: "
            f"{', '.join(VENDORS)}"
        )
    return VENDORS[vendor].resource


DEGREES = ("tp", "pp", GROUPS, "ep", "dp")
"""Parallel degrees that launch flags can say."""

WRITTEN = (*DEGREES, "cp", "charged", "drafts", "drafter", "memory_utilization", "reserve_bytes")
"""Settings of a deployment that launch flags are made from; the others are named in a note."""

ROOM = 2.0
"""Requests of the greatest length that the cache of a replica holds at least, where nothing is said of that length."""

EVEN = 256
"""Tokens that this length is a multiple of where the cache limits it: a whole number of blocks of every engine."""

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
"""Names of repositories at Hugging Face: an owner and a model."""

ROLES = ("serve", "prefill", "decode")
"""What a pool does: whole requests, their prompts, or their output tokens."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaunchedPool:
    """Equal replicas of one model, each on devices of its own."""

    role: str  # of `ROLES`
    repository: str  # of the model at Hugging Face, or the row's own name for it
    named: bool  # whether the repository is known
    hardware: str  # name in the catalogue
    vendor: str | None
    host: int  # devices of one host
    replicas: int
    tp: int
    pp: int
    groups: int  # that work on requests of their own: attention data parallelism
    ep: int
    drafts: int  # tokens drafted per sequence and step; 0: none
    draft: str | None  # repository of the model that drafts; None: the model's own prediction head, or a look-up
    looked_up: bool  # whether drafts are looked up in the text so far
    weights: str | None  # precision in place of the checkpoint's
    checkpoint: str  # precision of the checkpoint
    kv: str | None  # precision of the KV cache; None: the checkpoint's
    memory: float  # share of the device's memory that the engine may use
    static: float  # share that weights and KV cache may use: without graphs and communication buffers
    engine: str  # whose scheduler was simulated
    policy: Policy
    changed: frozenset[str]  # fields of the policy that are not the engine's own
    longest: int  # tokens of the longest request of the row, prompt and output
    context: int  # tokens of the longest request that the engine takes
    positions: int | None  # tokens that the model has positions for
    rest: Mapping[str, Any]  # settings without a flag, by name

    @property
    def ranks(self) -> int:
        """Devices that share one layer: tp x groups."""
        return self.tp * self.groups

    @property
    def devices(self) -> int:
        """Devices of one replica."""
        return self.ranks * self.pp

    @property
    def hosts(self) -> int:
        """Hosts that one replica spans."""
        return math.ceil(self.devices / self.host)

    @property
    def per_host(self) -> int:
        """Devices that one replica takes of each host."""
        return self.devices // self.hosts

    @property
    def sequences(self) -> float:
        """Sequences that run at once in all groups."""
        own = self.policy.decode_sequences if self.role == "decode" else math.inf
        return min(float(self.policy.max_sequences), float(own))

    @property
    def max_sequences(self) -> int:
        """Sequences that run at once in one group of attention data parallelism."""
        return math.ceil(self.sequences / self.groups)

    @property
    def token_budget(self) -> int:
        """Tokens of one step of one group of attention data parallelism."""
        return math.ceil(float(self.policy.token_budget) / self.groups)

    @property
    def step_tokens(self) -> int:
        """Tokens that a step of one group has room for: where prompts are not split, the longest request too."""
        return self.token_budget if self.policy.chunked else max(self.token_budget, self.context)


def pools(row: Mapping[str, Any], max_len: int | None = None) -> tuple[LaunchedPool, ...]:
    """The pools of a row: one, or prefill and decode where the row is disaggregated, which take equally long requests.

    Args:
      row: one of the `rows` that `jaxroof compare --json` writes.
      max_len: tokens of the longest request that the engine takes; None: as of `_context`, the least of the pools.

    Raises:
      ValueError: one line that names what is missing or wrong, its value and what is allowed; also for what `request`
        refuses of a deployment, and where the weights or one request do not fit.
    """
    spec, longest = _needed(row, "spec", Mapping), _count(_needed(row, "longest", float | int), "longest")
    replicas = _count(row.get("replicas", 1), "replicas")
    prefill = row.get("prefill")
    if prefill is None:
        return (_pool("serve", spec, spec.get("hardware"), spec.get("deployment"), replicas, longest, max_len),)
    if not isinstance(prefill, Mapping):
        raise ValueError(f"prefill = {prefill!r} must be a pool: deployment, replicas, hardware")
    hardware = prefill.get("hardware", spec.get("hardware"))
    first = _count(_needed(prefill, "replicas", float | int), "prefill.replicas")
    last = _count(row.get("decode_replicas", replicas), "decode_replicas")
    both = (
        _pool("prefill", spec, hardware, _needed(prefill, "deployment", Mapping), first, longest, max_len),
        _pool("decode", spec, spec.get("hardware"), spec.get("deployment"), last, longest, max_len),
    )
    return tuple(dataclasses.replace(pool, context=min(one.context for one in both)) for pool in both)


def _pool(
    role: str,
    spec: Mapping[str, Any],
    hardware: Any,
    deployment: Any,
    replicas: int,
    longest: int,
    max_len: int | None,
) -> LaunchedPool:
    said = {name: value for name, value in spec.items() if value is not None}
    asked = serve_spec(**{**said, "hardware": hardware, "deployment": deployment or {}})
    given = asked.deployment
    if _count(given.get("cp") or 1, "deployment.cp") > 1:
        raise ValueError(f"cp = {given['cp']}: flags of context parallelism are not written; choose a row without it")
    degrees = {name: _count(given.get(name) or 1, f"deployment.{name}") for name in DEGREES}
    case = asked.case()  # with all that `request` checks
    entry, scenario, model = case.hardware, case.scenario, workloads.model(asked.model)
    require_priced(model.name, scenario.model, scenario.deployment)
    of, policy = case.engine, chosen_policy(case.engine.words, asked.policy)
    drafts = _count(given.get("drafts") or 0, "deployment.drafts", zero=True)
    draft = None if asked.draft is None else repository_of(workloads.model(asked.draft), asked.draft)[0]
    placed = profiled(scenario.deployment, asked.policy)
    memory = float(memory_share(entry.hardware, placed))
    reserved = float(reserved_bytes(entry.hardware, model.model, placed))
    repository, named = repository_of(model, asked.model)
    unsaid = {name: value for name, value in given.items() if name not in WRITTEN and value is not None}
    unsaid |= {"communication": asked.communication} if asked.communication else {}
    pool = LaunchedPool(
        role=role,
        repository=repository,
        named=named,
        hardware=entry.name,
        vendor=entry.vendor,
        host=host_devices(entry),
        replicas=replicas * degrees.pop("dp"),
        groups=degrees.pop(GROUPS),
        **degrees,
        drafts=drafts,
        draft=draft,
        looked_up=scenario.deployment.drafter == "ngram",
        weights=asked.weights,
        checkpoint=model.precision,
        kv=asked.kv or _usual_cache(model, of),
        memory=memory,
        static=round(
            memory - (1.0 - float(placed.memory_static)) * reserved / float(entry.hardware.memory.hbm.capacity), 3
        ),
        engine=of.words,
        policy=policy,
        changed=frozenset(asked.policy),
        longest=longest,
        context=_context(case, policy, longest, max_len),
        positions=model.max_position,
        rest=unsaid | dict(asked.overrides),
    )
    if pool.ranks % pool.ep:
        raise ValueError(f"ep = {pool.ep} does not divide tp x {GROUPS} = {pool.ranks} devices")
    if pool.devices > pool.host and pool.devices % pool.host:
        raise ValueError(f"{pool.devices} devices do not fill hosts of {pool.host} {entry.name} each")
    return pool


def _context(case: Case, policy: Policy, longest: int, asked: int | None) -> int:
    """Tokens of the longest request that an engine is started for.

    Not above the positions of the model, and not more than the cache of a replica holds `ROOM` of: an engine does not
    start where its cache cannot hold one such request, and what it really has room for differs a little. Where prompts
    are not split, no more than fit in a step. But always the longest request of the row, as far as the model allows it.

    Args:
      asked: in place of that; None: nothing is asked for.

    Raises:
      ValueError: one line, where the cache does not hold one request, and for a length that cannot be.
    """
    scenario, positions = case.scenario, case.model.max_position
    place = scenario.hardware, scenario.model, scenario.deployment
    groups = request_groups(scenario.deployment)

    def held(tokens: float) -> float:
        return float(sequence_capacity(*place, float(tokens)) / groups)

    names = case.model.name, case.hardware.name
    most = LARGEST_TOKENS if positions is None else int(positions)
    if asked is not None and asked > most:
        raise ValueError(f"max_len = {asked:,} exceeds the {most:,} positions of {case.model.name}")
    least = min(longest, most) if asked is None else asked
    if not held(least) >= 1.0:
        require_room(*names, scenario.hardware, scenario.model, scenario.deployment, least)
        raise ValueError(f"{names[0]} on {names[1]}: the KV cache does not hold one request of {least:,} tokens")
    if asked is not None:
        return asked
    if not policy.chunked:
        most = min(most, max(int(policy.token_budget), least))
    low, high = least, max(most, least)  # the largest length of which the cache holds `ROOM`
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if held(middle) >= ROOM else (low, middle - 1)
    return low if low == most else max(low - low % EVEN, least)


def repository_of(entry: workloads.ModelEntry, asked: str) -> tuple[str, bool]:
    """Where an engine finds a model: its repository at Hugging Face, and whether that is known.

    The name that was asked for wins, then the one that the catalogue's figures are from, then its aliases.
    """
    names = (asked, entry.source.partition(",")[0].strip(), *entry.aliases)
    repository = next((name for name in names if REPOSITORY.fullmatch(name) and not os.path.exists(name)), None)
    return repository or entry.name, repository is not None


def _needed(record: Mapping[str, Any], name: str, kind: Any) -> Any:
    value = record.get(name)
    if value is None or not isinstance(value, kind):
        raise ValueError(f"the row has no {name}: it is not a row of a served comparison (jaxroof compare --json)")
    return value


def _usual_cache(model: workloads.ModelEntry, engine: hwspaces.EngineEntry) -> str | None:
    """The KV cache's precision where the engine has another one beside these weights than their 16 bits."""
    precision = cache_precision(model, None, engine)
    return None if precision == cache_precision(model, None) else precision


def _count(value: Any, name: str, zero: bool = False) -> int:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number == int(number) and number >= (0 if zero else 1)):
        raise ValueError(f"{name} = {value!r} must be a whole number of at least {0 if zero else 1}")
    return int(number)
