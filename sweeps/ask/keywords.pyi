"""Words of questions as keyword arguments, for type checkers; `python -m tests.keywords` writes this."""

from collections.abc import Iterable, Mapping
from typing import Any, SupportsFloat, TypedDict

Number = SupportsFloat | str
"""A number in SI units, of Python, NumPy or JAX, or a text with a unit."""

Table = Mapping[str, Any]

class CaseKeys(TypedDict, total=False):
    deployment: Table | None
    weights: str | None
    kv: str | None
    communication: str | None
    efficiency: str | None
    prices: str | None
    set: Table | None
    draft: str | None
    engine: str | None

class CapacityKeys(TypedDict, total=False):
    trace: str | None
    format: str | None
    sort: bool | None
    drop: bool | None
    columns: str | None
    time_unit: str | None
    trace_block_tokens: Number | None
    traffic: str | None
    rate: Number | None
    arrivals: str | None
    concurrency: Number | None
    think: Number | None
    isl: Number | None
    osl: Number | None
    requests: Number | None
    duration: Number | None
    image: str | None
    images: Number | None
    prefixes: str | None
    hit_rate: Number | None
    sessions: str | None
    seed: Number | None
    deployment: Table | None
    weights: str | None
    kv: str | None
    communication: str | None
    efficiency: str | None
    prices: str | None
    set: Table | None
    draft: str | None
    engine: str | None
    policy: Table | None
    router: str | None
    router_weights: str | None
    decode_router: str | None
    prefill: Table | None
    prefill_policy: Table | None
    also: str | Iterable[str | Table] | None
    tiers: str | None
    tier_rules: Table | None
    admission: str | None
    encoders: str | None
    autoscale: str | None
    whole: bool | None

class ServeKeys(CapacityKeys, total=False):
    slo: str | Table | None

class CompareKeys(TypedDict, total=False):
    share: Number | None
    rate: Number | None
    headroom: Number | None
    hardware: str | Iterable[str] | None
    devices: Number | Iterable[Number] | None
    max_devices: Number | None
    weights: str | Iterable[str] | None
    kv: str | Iterable[str] | None
    engine: str | None
    policy: Table | str | Iterable[str] | None
    draft: str | None
    drafts: Number | Iterable[Number] | None
    efficiency: str | None
    adapters: str | Table | None
    prices: str | None
    node: Number | None
    set: Table | str | Iterable[str] | None
    simulate: Number | None
    disaggregated: bool | None
    sort: str | None
    trace: str | None
    format: str | None
    drop: bool | None
    columns: str | None
    time_unit: str | None
    trace_block_tokens: Number | None
    traffic: str | None
    arrivals: str | None
    isl: Number | None
    osl: Number | None
    requests: Number | None
    duration: Number | None
    image: str | None
    images: Number | None
    prefixes: str | None
    hit_rate: Number | None
    sessions: str | None
    seed: Number | None

class StaticKeys(TypedDict, total=False):
    hardware: str | Iterable[str] | None
    devices: Number | Iterable[Number] | None
    max_devices: Number | None
    batch: Number | Iterable[Number] | None
    slo: str | Table | None
    sort: str | None
    weights: str | None
    kv: str | None
    efficiency: str | None
    prices: str | None
    set: Table | None

class SweepKeys(TypedDict, total=False):
    hardware: str | Iterable[str]
    model: str | Iterable[str]
    deployment: Table
    weights: str | Iterable[str]
    kv: str | Iterable[str]
    communication: str
    efficiency: str | Iterable[str]
    prices: str
    set: Table
    draft: str
    engine: str
    policy: Table
    slo: str | Table
    job: str
    mode: str
    space: str
    prefill: Table
    decode: Table
    neighbour: Table
    workload: Table
    deployments: str | Iterable[str | Table]
    axes: Table
    laws: Table
    per: str | Iterable[str]
    sample: Table
    scenario: Table
    output: Table
