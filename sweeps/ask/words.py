"""Words of every question, each declared once: keys, flags, keywords, signatures and errors follow from these fields.

The type of a field is what the question holds once it is read; `sweeps.ask.keys` has the types of what users write.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.ask.keys import COUNT, COUNTS, NAMES, NUMBER, SWITCH, TABLE, Table, like, word

SHARE = 0.95
"""Share of the requests that keep their limits, where nothing is said."""

CONSTANTS = (
    "how far kernels are from the datasheet: learned (default), kernel, derated, datasheet, learned-trtllm, "
    "learned-sglang, a TOML file, or surface:FILE.nc of measurements (jaxroof bench, jaxroof surface)"
)
_ACCELERATOR = "accelerator: a name (jaxroof hardware) or a TOML file"
_MODEL = "model: a name (jaxroof models), a config.json or its folder, a TOML file, OWNER/NAME of the Hub"
_WEIGHTS = "in place of the checkpoint's: fp8, int8, w4a16, w4a16-fp16 (the rest in fp16), nvfp4, q4_k_m ..."
_PRICES = "what devices cost: on_demand (default), reserved_1y, reserved_3y, spot, or a TOML file of your own prices"
_ENGINE = "vllm, sglang, trtllm, or a release such as vllm@0.11 (default: the efficiency's newest)"
_POLICY = "a number of the engine's scheduler, docs/guide/serving.md: token_budget=2048, order=prefill_first, "
_POLICY += "queue=shortest_first; may be given several times"
_ROUTER = "simulate all replicas (dp), and send requests by: round_robin, random, session, least_requests, "
_ROUTER += "least_tokens, prefix, slo or power_of_two (default: one replica in dp is simulated); several, with commas "
_ROUTER += "between, are compared"
_PREFILL = "of a pool for prompts: hardware, efficiency, tp, dp, ...; what is not said is as in the decode pool, which "
_PREFILL += "other flags describe, but degrees, which are 1; may be given several times"
_PREFILL_POLICY = "a number of the scheduler of the pool for prompts: max_sequences=64, token_budget=16384, chunked=0, "
_PREFILL_POLICY += "queue=shortest_first; what is not said is as in --policy; may be given several times"
_TIERS = "tiers of the KV cache below the devices' memory: host=1TB,ssd=8TB,remote=100TB, of a server each but remote"
_TIER_RULES = "write=through or back, eviction=lru, fifo or session, overlap=0 .. 1 of loads with compute, known=1: to "
_TIER_RULES += "routers; may be given several times"
_ALSO = "replicas of another kind in the same service: hardware=L40S,tp=2,dp=4; what is not said is as in the first "
_ALSO += "ones, which other flags describe, but degrees, which are 1; may be given several times"
_AUTOSCALE = "replicas start and stop, by waiting requests (queue) or their prompt tokens (queue_tokens), requests per "
_AUTOSCALE += "second (rate) or the mean time to the first token (ttft) per replica: "
_AUTOSCALE += "by=queue,target=4,least=1,most=8,start=60s,every=15s,idle=300s"
_ADMISSION = (
    "requests are rejected whose time to first token is expected to be longer when they come: 2s, or slo for the "
)
_ADMISSION += "limit of each in --slo or its class"
_ENCODERS = "devices that encode images alone and send their vectors to the engines that compute prompts: 2, or 2xL40S"
_SET = "any number, with its unit: hardware.memory.hbm.bandwidth=8TB/s; may be given several times"
_ONE_DRAFT = "draft is one model; sweep deployment.drafts and workload.acceptance for others' ways"
_ONE_PRECISION = "communication is one precision; sweep deployment.communication_bytes for several"
_PER = "axes that best points and fronts are per (default: the model and numbers of its traffic); none: best of all"
_KV, _SENT = "deployment.kv_bytes", "deployment.communication_bytes"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseWords:
    """Words of one deployment of one model."""

    # Without a default, these two have to be given.
    hardware: str = word("NAME", _ACCELERATOR, "a name or file", axis=True, default=dataclasses.MISSING)
    model: str = word("NAME", _MODEL, "a name or file", axis=True, default=dataclasses.MISSING)
    deployment: Table = word(meaning="table: degrees and other settings of the deployment", default=dict)
    weights: str | None = word("PRECISION", _WEIGHTS, "a precision in place of the checkpoint's", axis=True)
    kv: str | None = word(
        "PRECISION", "of the KV cache: bf16, fp16, fp8, int8 or fp4", "precision of the KV cache", axis=True, leaf=_KV
    )
    communication: str | None = word(
        "PRECISION", "of what collectives send (default bf16)", one=_ONE_PRECISION, leaf=_SENT
    )
    efficiency: str | None = word("NAME", CONSTANTS, "constants: a name or file", axis=True)
    prices: str | None = word("TERMS", _PRICES)
    overrides: Table = word("PATH=VALUE", _SET, "table: any leaf by dotted path, one value", default=dict)
    draft: str | None = word("NAME", "a smaller model that drafts --drafts tokens per step", one=_ONE_DRAFT, apart=True)
    engine: str | None = word("NAME", _ENGINE, apart=True, served=True)


# Words with a factory for their default are tables.
NAMED = tuple(field.name for field in dataclasses.fields(CaseWords) if field.default_factory is dataclasses.MISSING)
"""Words of a case that are one name; the others are tables."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedWords(CaseWords):
    """Words of one deployment under a simulated engine, beside those of its requests (`sweeps.ask.offered_load`)."""

    policy: Table = word(
        "NAME=VALUE",
        _POLICY,
        "for job serve: a table of how the engine schedules",
        apart=True,
        served=True,
        default=dict,
    )
    slo: str | Table | None = word(
        "LATENCY=LIMIT,..", "what a good request keeps: ttft=500ms,tpot=40ms", apart=True, served=True
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServiceWords(ServedWords):
    """Words of one simulated service: its engine's, and how requests come to its replicas."""

    router: str | None = word("NAME,..", _ROUTER, "how requests come to replicas", apart=True)
    router_weights: str | None = word("NAME=WEIGHT,..", "of the router prefix: prefix=1,load=1 (default)", apart=True)
    decode_router: str | None = word("NAME", "of prompts to decoding replicas (default least_requests)", apart=True)
    prefill: Table = word("NAME=VALUE", _PREFILL, "table: the prefill pool", apart=True, default=dict)
    prefill_policy: Table = word(
        "NAME=VALUE", _PREFILL_POLICY, "table: how the prefill pool schedules", apart=True, default=dict
    )
    also: list[Table] | None = word("NAME=VALUE,..", _ALSO, "a list of tables: replicas of other kinds", apart=True)
    tiers: str | None = word("NAME=CAPACITY,..", _TIERS, "tiers of the KV cache", apart=True)
    tier_rules: Table = word("NAME=VALUE", _TIER_RULES, "table: how tiers are used", apart=True, default=dict)
    admission: str | None = word("TIME", _ADMISSION, "longest time to first token that is expected", apart=True)
    encoders: str | None = word("N[xNAME]", _ENCODERS, "workers that encode images alone", apart=True)
    autoscale: str | None = word("by=LOAD,..", _AUTOSCALE, "replicas that start and stop", apart=True)
    whole: bool = word(
        help="with --prefill: the cache leaves after the prompt, instead of layer by layer",
        reads=SWITCH,
        apart=True,
        default=False,
    )


@dataclasses.dataclass(frozen=True)
class AxisRange:
    """An interval, in whatever units its ends are written: `n` points of a grid, or the bounds of a sample."""

    low: Any
    high: Any
    n: int | None  # None only in sample mode
    log: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class SweepWords(ServedWords):
    """Keys of a specification, as a TOML file and `sweeps.sweep` have them."""

    job: str = word(meaning="request, step, train, disaggregated, colocated or serve")
    mode: str = word(meaning="grid or sample")
    space: str = word(meaning="a design space in place of hardware: its laws, and a range of every knob")
    prefill: Table = word(
        meaning="of a disaggregated job: table of the prefill pool, hardware, efficiency and its deployment's settings"
    )
    decode: Table = word(
        meaning="of a disaggregated job: table of the decode pool, in place of hardware, efficiency and deployment"
    )
    neighbour: Table = word(
        meaning="of a colocated job: table of the other model, its requests and its deployment's settings"
    )
    workload: Table = word(meaning="table: numbers of the job's workload")
    deployments: list[Table] = word(meaning="a list of such tables: whole deployments along an axis")
    axes: Mapping[str, list[Any] | AxisRange | Table] = word(meaning="table: any leaf by dotted path")
    overrides: Table = like(CaseWords, "overrides", key="set")
    laws: Mapping[str, str] = word(
        meaning="table: any leaf by dotted path, an expression of other leaves that it follows from"
    )
    per: str | list[str] = word("NAME,..", _PER, apart=True)
    sample: Table = word(meaning="table: points, method, seed")
    scenario: Table = word(meaning="table: what the specification is of the suite of scenarios; it changes nothing")
    output: Table = word(meaning="table: variables, breakdown, illegal, dtype, keep, prune, compression, digits")


_LIMITS = "what has to be kept: ttft=1s,tpot=30ms,e2e=20s by a share of the requests; ttft.p99=1s, tpot.mean=30ms "
_LIMITS += "by the run"
_SEVERAL_WEIGHTS = "in place of the checkpoint's: fp8, int8, nvfp4 ..., or several, ranked together: bf16,fp8"
_SEVERAL_KV = "of the KV cache: bf16, fp16, fp8, int8 or fp4, or several"
_ENGINES = "vllm (default), sglang or trtllm: its constants and policy; a release as vllm@0.24"
_POLICIES = "a number of the engine's scheduler, or several: token_budget=2048,8192 (the default), max_sequences=256"
_ADAPTERS = "low-rank adapters that requests run with: rank=16,loaded=32,targets=q,v"
_NODE = "devices of one server, which is rented whole (default: 8 of HGX and OAM boards, 4 of GB200, 1 of cards)"
_SETS = "any number of every accelerator or the deployment: hardware.price=2USD/h; may be given several times"
_SIMULATE = "deployments of every accelerator that are simulated at most (default 6; 0: estimates)"
_SORT = "usd_per_million_tokens (default where most have prices), usd_per_hour, tokens_per_second_per_device, "
_SORT += "devices, joules_per_token, gco2_per_million_tokens, owning_usd_per_million_tokens ..."


def _like(name: str, **changes: Any) -> Any:
    return like(ServedWords, name, **changes)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonWords:
    """Words of a served comparison, beside those of its requests (`sweeps.ask.offered_load.COMPARED`)."""

    model: str = _like("model")
    slo: str | Table | None = _like("slo", flag="LIMITS", help=_LIMITS)
    share: float | str = word("SHARE", "of the requests that have to keep it (default 0.95)", default=SHARE)
    rate: float | None = word("R", "requests/s that have to be served: by how many replicas?", unit="1/s", reads=NUMBER)
    headroom: float | None = word("SHARE", "load that they can take beyond it (default 0.1)", zero=True, reads=NUMBER)
    hardware: Sequence[str] | None = _like(
        "hardware", flag="NAME,..", help="accelerators (default: all that are rented out)", reads=NAMES
    )
    devices: Sequence[int] | None = word(
        "N,..", "of one replica (default: powers of two up to 16)", whole=True, reads=COUNTS
    )
    max_devices: int | None = word("N", "in place of --devices: powers of two up to N", whole=True, reads=COUNT)
    weights: Sequence[str] | None = _like("weights", flag="PRECISION,..", help=_SEVERAL_WEIGHTS, reads=NAMES)
    kv: Sequence[str] | None = _like("kv", flag="PRECISION,..", help=_SEVERAL_KV, reads=NAMES)
    engine: str | None = _like("engine", help=_ENGINES)
    policy: Table | None = _like("policy", flag="NAME=VALUE,..", help=_POLICIES, reads=TABLE)
    draft: str | None = _like("draft", help="a smaller model that drafts tokens")
    drafts: Sequence[int] | None = word("N,..", "tokens drafted per step; 0: none", whole=True, zero=True, reads=COUNTS)
    efficiency: str | None = _like("efficiency")
    adapters: str | Table | None = word("SETTINGS", _ADAPTERS)
    prices: str | None = _like("prices")
    node: int | None = word("N", _NODE, whole=True, reads=COUNT)
    overrides: Table | None = _like("overrides", help=_SETS, key="set", reads=TABLE)
    simulate: int = word("N", _SIMULATE, whole=True, zero=True, reads=COUNT, default=6)
    # The flag switches it off.
    disaggregated: bool = word(
        help="leave out pools that only prefill or decode: estimates", reads=SWITCH, default=True
    )
    sort: str | None = word("METRIC", _SORT)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StaticWords:
    """Words of a static comparison beside its model and lengths; flags but that of `batch` are of `ComparisonWords`."""

    hardware: Sequence[str] | None = _like("hardware", reads=NAMES)
    devices: Sequence[int] | None = word(reads=COUNTS)
    max_devices: int = word(default=16)
    batch: Sequence[int] | None = word("N,..", "with --static: requests at once (default: up to 512)", reads=COUNTS)
    slo: str | Table | None = _like("slo")
    sort: str | None = word()
    weights: str | None = _like("weights")
    kv: str | None = _like("kv")
    efficiency: str | None = _like("efficiency")
    prices: str | None = _like("prices")
    overrides: Table | None = _like("overrides", key="set")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassWords:
    """Words of a deployment that every class of a fleet's traffic has for itself."""

    weights: str | None = _like("weights")
    kv: str | None = _like("kv")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FleetWords:
    """Words of a deployment that a fleet has for all classes."""

    efficiency: str | None = _like("efficiency")
