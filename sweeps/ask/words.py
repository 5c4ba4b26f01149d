"""Words of questions: each is declared once, and keys, flags, keywords, signatures and errors follow from that.

A class stands for a question and a field for one of its words. Its type is what the question holds once it is read.
"""

import dataclasses
import functools
import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_type_hints

from hwspaces.quantities.units import nearest
from jaxroof.numerics.struct import Declaration

Function = TypeVar("Function", bound=Callable)
Question = TypeVar("Question")
Table = Mapping[str, Any]

TEXT, NUMBER, COUNT, COUNTS, NAMES, TABLE, SWITCH = "text", "number", "count", "counts", "names", "table", "switch"
"""Ways to read what a user writes; of those that end in s, one value or several, which are tried."""

WRITTEN: Mapping[str, Any] = {
    NUMBER: float | str | None,
    COUNT: int | str | None,
    COUNTS: int | str | Iterable[int] | None,
    NAMES: str | Iterable[str] | None,
    TABLE: str | Iterable[str] | Table | None,
}
"""Types of what a user writes, where they are wider than those of what a question holds."""


@dataclasses.dataclass(frozen=True)
class Word(Declaration):
    """One word: its declaration as a number where it is one, and how users say it."""

    help: str = ""  # of its flag, whose placeholder is `flag`
    key: str = ""  # what users call it, where it is not called as its field
    field: str = ""  # that holds it
    reads: str = TEXT
    axis: bool = False  # a list of it is an axis of a sweep
    one: str = ""  # why a sweep takes no list of it: the error
    leaf: str = ""  # of the deployment that it sets; its flag stands beside those of the leaves
    apart: bool = False  # only some verbs have its flag, and add it themselves
    unchecked: bool = False  # by a specification: what looks it up says what is wrong with it
    served: bool = False  # of specifications, only those of a simulated engine have it


def word(meaning: str, flag: str = "", help: str = "", *, default: Any = None, unit: str = "1", **facts: Any) -> Any:
    """A field that is a word; `facts` as in `Word`. The default `dict` stands for an empty table."""
    metadata = {"word": Word(unit, meaning, flag=flag, help=help, **facts)}
    if default is dict:
        return dataclasses.field(default_factory=dict, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def words(kind: type) -> dict[str, Word]:
    """Words of a question by what users call them."""
    fields = [field for field in dataclasses.fields(kind) if "word" in field.metadata]
    return {_key(field): dataclasses.replace(field.metadata["word"], field=field.name) for field in fields}


ACCELERATOR = "accelerator: a name (jaxroof hardware) or a TOML file"
CONSTANTS = (
    "how far kernels are from the datasheet: learned (default), kernel, derated, datasheet, learned-trtllm, "
    "learned-sglang, a TOML file, or surface:FILE.nc of measurements (jaxroof bench, jaxroof surface)"
)
PRICES = "what devices cost: on_demand (default), reserved_1y, reserved_3y, spot, or a TOML file of your own prices"
SHARE = 0.95
"""Share of the requests that keep their limits, where nothing is said."""

SEVERAL_TIMES = "may be given several times"


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaseWords:
    """Words of one deployment of one model."""

    hardware: str = word("a name or file", "NAME", ACCELERATOR, axis=True, default=dataclasses.MISSING)
    model: str = word(
        "a name or file",
        "NAME",
        "model: a name (jaxroof models), a config.json or its folder, OWNER/NAME of the Hugging Face Hub",
        axis=True,
        default=dataclasses.MISSING,
    )
    deployment: Table = word("table: degrees and other settings of the deployment", default=dict)
    weights: str | None = word(
        "a precision in place of the checkpoint's",
        "PRECISION",
        "in place of the checkpoint's: fp8, int8, w4a16, w4a16-fp16 (the rest in fp16), nvfp4, q4_k_m ...",
        axis=True,
    )
    kv: str | None = word(
        "precision of the KV cache",
        "PRECISION",
        "of the KV cache: bf16, fp16, fp8, int8 or fp4",
        axis=True,
        leaf="deployment.kv_bytes",
    )
    communication: str | None = word(
        "precision of what collectives send",
        "PRECISION",
        "of what collectives send (default bf16)",
        one="communication is one precision; sweep deployment.communication_bytes for several",
        leaf="deployment.communication_bytes",
    )
    efficiency: str | None = word("constants: a name or file; the engine's own", "NAME", CONSTANTS, axis=True)
    prices: str | None = word("terms or a TOML file of prices", "TERMS", PRICES)
    overrides: Table = word(
        "table: any leaf by dotted path, one value",
        "PATH=VALUE",
        f"any number, with its unit: hardware.memory.hbm.bandwidth=8TB/s; {SEVERAL_TIMES}",
        default=dict,
    )
    draft: str | None = word(
        "a smaller model that drafts tokens",
        "NAME",
        "a smaller model that drafts --drafts tokens per step",
        one="draft is one model; sweep deployment.drafts and workload.acceptance for others' ways",
        apart=True,
    )
    engine: str | None = word(
        "vllm, sglang, trtllm, or a release such as vllm@0.24",
        "NAME",
        "vllm, sglang, trtllm, or a release such as vllm@0.11 (default: the efficiency's newest)",
        apart=True,
        unchecked=True,
        served=True,
    )


NAMED = tuple(f.name for f in dataclasses.fields(CaseWords) if f.default_factory is dataclasses.MISSING)
"""Words of a case that are one name; the others are tables."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServedWords(CaseWords):
    """Words of one deployment under a simulated engine, beside those of its requests (`sweeps.ask.offered_load`)."""

    policy: Table = word(
        "table: numbers of the engine's scheduler",
        "NAME=VALUE",
        "a number of the engine's scheduler, docs/guide/serving.md: token_budget=2048, order=prefill_first, "
        f"queue=shortest_first; {SEVERAL_TIMES}",
        default=dict,
        apart=True,
        served=True,
    )
    slo: str | Table | None = word(
        "limits such as ttft=500ms,tpot=40ms, or a table of them",
        "LATENCY=LIMIT,..",
        "what a good request keeps: ttft=500ms,tpot=40ms",
        apart=True,
        served=True,
    )


def _like(name: str, **changes: Any) -> Any:
    """The word of a deployment of this name, as another question says it."""
    own = ServedWords.__dataclass_fields__[name].metadata["word"]
    return dataclasses.field(default=None, metadata={"word": dataclasses.replace(own, **changes)})


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

    job: str = word("request, step, train, disaggregated, colocated or serve")
    mode: str = word("grid or sample")
    space: str = word("a design space by name or file, in place of hardware: its laws, and a range of every knob")
    prefill: Table = word(
        "of a disaggregated job: table of the prefill pool, hardware, efficiency and its deployment's settings"
    )
    decode: Table = word(
        "of a disaggregated job: table of the decode pool, in place of hardware, efficiency and deployment"
    )
    neighbour: Table = word("of a colocated job: table of the other model, its requests and its deployment's settings")
    workload: Table = word("table: numbers of the job's workload")
    deployments: list[Table] = word("a list of such tables: whole deployments along an axis")
    axes: Mapping[str, list | AxisRange | Table] = word("table: any leaf by dotted path")
    laws: Mapping[str, str] = word("table: any leaf by dotted path, an expression of other leaves that it follows from")
    sample: Table = word("table: points, method, seed")
    scenario: Table = word(
        "table: what the specification is of the suite of scenarios, which says more and changes nothing"
    )
    overrides: Table = _like("overrides", key="set")
    output: Table = word("table: variables, breakdown, illegal, dtype, keep, compression, digits")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ComparisonWords:
    """Words of a served comparison, beside those of its requests (`sweeps.ask.offered_load.COMPARED`)."""

    model: str = _like("model")
    slo: str | Table | None = _like(
        "slo",
        flag="LIMITS",
        help="what has to be kept: ttft=1s,tpot=30ms,e2e=20s by a share of the requests; ttft.p99=1s, tpot.mean=30ms "
        "by the run",
    )
    share: float | str = word(
        "share of the requests", "SHARE", f"of the requests that have to keep it (default {SHARE:g})", default=SHARE
    )
    rate: float | None = word(
        "requests that have to be served",
        "R",
        "requests/s that have to be served: by how many replicas?",
        unit="1/s",
        reads=NUMBER,
    )
    headroom: float | None = word(
        "load beyond the rate, as a share of it",
        "SHARE",
        "load that they can take beyond it (default 0.1)",
        zero=True,
        reads=NUMBER,
    )
    hardware: Sequence[str] | None = _like(
        "hardware", flag="NAME,..", help="accelerators (default: all that are rented out)", reads=NAMES
    )
    devices: Sequence[int] | None = word(
        "how many", "N,..", "of one replica (default: powers of two up to 16)", whole=True, reads=COUNTS
    )
    max_devices: int | None = word(
        "how many", "N", "in place of --devices: powers of two up to N", whole=True, reads=COUNT
    )
    weights: Sequence[str] | None = _like(
        "weights",
        flag="PRECISION,..",
        help="in place of the checkpoint's: fp8, int8, nvfp4 ..., or several, ranked together: bf16,fp8",
        reads=NAMES,
    )
    kv: Sequence[str] | None = _like(
        "kv", flag="PRECISION,..", help="of the KV cache: bf16, fp16, fp8, int8 or fp4, or several", reads=NAMES
    )
    engine: str | None = _like(
        "engine", help="vllm (default), sglang or trtllm: its constants and policy; a release as vllm@0.24"
    )
    policy: Table | None = _like(
        "policy",
        flag="NAME=VALUE,..",
        help="a number of the engine's scheduler, or several: token_budget=2048,8192 (the default), max_sequences=256",
        reads=TABLE,
    )
    draft: str | None = _like("draft", help="a smaller model that drafts tokens")
    drafts: Sequence[int] | None = word(
        "how many", "N,..", "tokens drafted per step; 0: none", whole=True, zero=True, reads=COUNTS
    )
    efficiency: str | None = _like("efficiency")
    adapters: str | Table | None = word(
        "low-rank adapters", "SETTINGS", "low-rank adapters that requests run with: rank=16,loaded=32,targets=q,v"
    )
    prices: str | None = _like("prices")
    node: int | None = word(
        "how many",
        "N",
        "devices of one server, which is rented whole (default: 8 of HGX and OAM boards, 4 of GB200, 1 of cards)",
        whole=True,
        reads=COUNT,
    )
    overrides: Table | None = _like(
        "overrides",
        help=f"any number of every accelerator or the deployment: hardware.price=2USD/h; {SEVERAL_TIMES}",
        key="set",
        reads=TABLE,
    )
    simulate: int = word(
        "how many",
        "N",
        "deployments of every accelerator that are simulated at most (default 6; 0: estimates)",
        whole=True,
        zero=True,
        reads=COUNT,
        default=6,
    )
    disaggregated: bool = word(
        "pools", help="leave out pools that only prefill or decode: estimates", reads=SWITCH, default=True
    )
    sort: str | None = word(
        "a figure",
        "METRIC",
        "usd_per_million_tokens (default where most have prices), usd_per_hour, tokens_per_second_per_device, "
        "devices, joules_per_token, gco2_per_million_tokens, owning_usd_per_million_tokens ...",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class StaticWords:
    """Words of a static comparison, beside its model and lengths; flags are those of `ComparisonWords`."""

    hardware: Sequence[str] | None = _like("hardware", reads=NAMES)
    devices: Sequence[int] | None = word("how many", reads=COUNTS)
    max_devices: int = word("how many", default=16)
    batch: Sequence[int] | None = word(
        "requests at once", "N,..", "with --static: requests at once (default: up to 512)", reads=COUNTS
    )
    slo: str | Table | None = _like("slo")
    sort: str | None = word("a figure")
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

    efficiency: str | None = _like("efficiency", meaning="constants: a name or file")


def values(question: Any, kind: type) -> dict[str, Any]:
    """What a question holds of the words of another one, by field."""
    return {word.field: getattr(question, word.field) for word in words(kind).values()}


def question_of(kind: type[Question], **given: Any) -> Question:
    """A question of these words; what is None was not given.

    Raises:
      ValueError: one line, for a word that there is not, with the nearest, or one that is needed and missing.
    """
    fields = {_key(field): field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
    for key in given:
        if key not in fields:
            raise ValueError(f"there is no key {key}{nearest(key, fields)}")
    for key, field in fields.items():
        needed = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if needed and not given.get(key):
            raise ValueError(f"{key} is missing; `jaxroof {key}{'s' * (key == 'model')}` lists the known names")
    return kind(**{fields[key].name: value for key, value in given.items() if value is not None})


def _key(field: dataclasses.Field) -> str:
    """What users call the word of a field."""
    return getattr(field.metadata.get("word"), "key", "") or field.name


class _NotGiven:
    """Default that is shown of a word which may be left out and has no default value."""

    def __repr__(self) -> str:
        return "..."


NOT_GIVEN = _NotGiven()


def takes(kind: type, names: Collection[str] | None = None) -> Callable[[Function], Function]:
    """A decorator of functions that pass `**words` on: `help` and editors show the words by name, type and default.

    Only the signature changes: an unknown word reaches the function, which refuses it in one line.

    Args:
      kind: a dataclass with one field for each word. Those that the function names itself are not shown twice.
      names: of the fields that the function takes; None: of all.
    """

    def shown(function: Function) -> Function:
        own = inspect.signature(function)
        named = [one for one in own.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
        hints, more = get_type_hints(kind), []
        for field in dataclasses.fields(kind):
            declared: Word | None = field.metadata.get("word")
            written, default = hints[field.name], field.default
            if declared is not None:
                written = WRITTEN.get(declared.reads, written)
                written = written if default is None else _without_none(written)
            if declared is not None and kind is SweepWords:  # of a key there is a value, or it is left out
                written, default = _without_none(written), dataclasses.MISSING
                written = written | list[str] if declared.axis else written
            default = NOT_GIVEN if default is dataclasses.MISSING else default
            more.append(
                inspect.Parameter(_key(field), inspect.Parameter.KEYWORD_ONLY, annotation=written, default=default)
            )
        wanted = [one for one in more if one.name not in own.parameters and (names is None or one.name in names)]
        function.__signature__ = own.replace(parameters=[*named, *wanted])  # type: ignore[attr-defined]  # for inspect
        return function

    return shown


def _without_none(hint: Any) -> Any:
    """The type without None."""
    parts = [part for part in get_args(hint) if part is not type(None)]
    return functools.reduce(operator.or_, parts) if type(None) in get_args(hint) else hint
