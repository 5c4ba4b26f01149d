"""Launch flags of a measured run: what its suite set beside the engine's own defaults, read from `suites.toml`."""

import dataclasses
import datetime
import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hwspaces
from hwspaces.engines.keys import numbers
from hwspaces.files import document
from hwspaces.quantities.expression import Expression
from hwspaces.quantities.leaves import declared_quantity
from hwspaces.quantities.units import nearest, require_keys
from jaxroof.batch import Policy
from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware
from jaxroof.numerics.struct import declarations
from sweeps.ask.acceptances import acceptance
from sweeps.measure.validate.serving.precisions import bits

INFERENCEX, NVIDIA = "inferencex", "nvidia"
"""Suites: the public InferenceX runs, and NVIDIA's own sweeps."""

ENGINES = ("vllm", "trtllm", "sglang")


LONG = 8192.0
"""Long one of InferenceX's nominal lengths, tokens."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Degrees of the deployment that answered."""

    tp: float
    pp: float
    groups: float  # attention data-parallel
    ep: float
    repaired: bool = False  # the labels said otherwise
    suspect: str | None = None  # why the labels cannot be right


def suite(source_tag: str) -> str:
    """Who measured: InferenceX, whose tag is a database dump or a date, or NVIDIA."""
    return INFERENCEX if re.match(r"db-dump|\d{4}-\d{2}-\d{2}", source_tag) else NVIDIA


def layout(numbers: dict[str, Any], family: str, mixture: bool) -> Layout:
    """The devices that ran, from tp, pp, attention dp, expert tp and ep, concurrency and batch size of a row.

    Args:
      numbers: by column; None or 0 where nothing was recorded.
      family: INFERENCEX or NVIDIA.
      mixture: the model has routed experts.

    Rules, in this order:
    1. Dense models have no expert degrees, whatever their labels say.
    2. InferenceX rows whose expert tp and ep are both n > 1 and whose tp x attention dp is n squared ran on n devices:
       tp x ep was multiplied where the suite counts the same n devices twice.
    3. An empty attention dp is what the experts' devices leave of tp, where that is a whole number; else 1.
    4. Experts on another number of devices than attention: the labels cannot be right.
    5. A batch size that is neither the clients nor an attention group's share of them: the labels cannot be right.
    6. Without a number of clients, the batch size of all attention groups; whether they were always full is not said.
    """
    tp, pp = numbers["tp_size"], numbers["pp_size"] or 1.0
    groups = numbers["attention_dp_size"] or None
    width, experts = numbers["moe_tp_size"] or 1.0, numbers["moe_ep_size"] or 1.0
    repaired, suspect = False, None
    # Rule 1: without experts, their degrees mean nothing.
    if not mixture:
        width, experts, groups = tp, 1.0, groups or 1.0
    # Rule 2: the same n devices were counted as expert tp and as ep.
    elif family == INFERENCEX and width == experts > 1.0 and tp * (groups or 1.0) == experts**2:
        repaired = True
        tp, groups = (experts, 1.0) if tp > 1.0 else (1.0, experts)
        width = 1.0
    elif groups is None:
        # Rule 3: attention groups from the devices of the experts.
        spread = width * experts / tp
        groups = spread if spread >= 1.0 and spread == int(spread) else 1.0
        repaired = groups != 1.0
    # Rule 4: experts and attention share one set of devices.
    if mixture and not repaired and width * experts != tp * groups:
        if width * experts == 1.0:  # not said
            experts = 1.0
        else:
            suspect = f"experts on {width * experts:g} devices, attention on {tp * groups:g}"
    clients, batch = numbers["concurrency"], numbers["batch_size"]
    if not clients:
        suspect = suspect or "no number of clients"
    # Rule 5, with a tolerance of one client per group for batches that are rounded.
    elif batch and not repaired and all(abs(batch * n - clients) > n for n in (1.0, groups)):
        suspect = suspect or f"{clients:g} clients in batches of {batch:g} on {groups:g} attention groups"
    return Layout(tp=tp, pp=pp, groups=groups, ep=experts, repaired=repaired, suspect=suspect)


def scripted_degrees(
    numbers: dict[str, Any], engine: str, family: str, version: str, model: str, hardware: Hardware
) -> dict[str, Any]:
    """Degrees that InferenceX's scripts for DeepSeek on TensorRT-LLM chose by themselves until November 2025.

    Runs of that time carry no version, and their labels say expert tp = tp. On Hopper ep was tp, and attention was
    data-parallel above 64 clients (32 for long prompts); on Blackwell ep was tp from 16 clients (short outputs), from
    32 (long outputs), and always for long prompts.

    Source: benchmarks/dsr1_fp8_h200_trt_slurm.sh and dsr1_fp4_b200_trt_slurm.sh of InferenceX, October 2025.
    """
    blackwell = "fp4" in hardware.matrix
    # Rows with a version, or degrees beyond tp, say what ran.
    labelled = version or (numbers["moe_ep_size"] or 1.0) != 1.0 or (numbers["attention_dp_size"] or 1.0) != 1.0
    if engine != "trtllm" or family != INFERENCEX or not model.startswith("DeepSeek") or labelled:
        return numbers
    clients, tp = numbers["concurrency"] or 0.0, numbers["tp_size"]
    long_prompt, long_output = numbers["isl_tokens"] == LONG, numbers["osl_tokens"] == LONG
    # Below these numbers of clients the script left the experts as they are labelled.
    if blackwell and not long_prompt and clients < (32.0 if long_output else 16.0):
        return numbers
    # Experts whole on one device each, rather than split over all.
    spread = numbers | {"moe_ep_size": tp, "moe_tp_size": 1.0}
    if not blackwell and clients > (32.0 if long_prompt else 64.0):
        return spread | {"tp_size": 1.0, "attention_dp_size": tp}
    return spread


FILE = Path(__file__).parent / "suites.toml"

OF_ONE_GROUP = ("token_budget", "max_sequences", "decode_sequences", "graph_step", "graph_limit")
"""Numbers of the policy that engines' flags give for one attention group; the scheduler's are those of all."""

ACCEPTANCE = "acceptance"
"""Number of the policy that may be several, by position."""

TABLES = {"policy": Policy, "deployment": Deployment, "prefill": Deployment}
"""Table of an entry -> the struct whose fields it sets; `prefill` is of the pool for prompts."""

KEYS = ("source", "when", "shortest", *TABLES, "kv", "router", "engine", "assumed")


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoggedRun:
    """What ran, as far as launch flags depend on it."""

    engine: str  # one of `sweeps.ask.engines.ENGINES`
    version: str  # of the engine, "" where it is not recorded
    family: str  # INFERENCEX or NVIDIA
    gpu: str  # of the catalogue
    vendor: str | None  # of the device
    hardware: Hardware
    model_name: str  # of the catalogue
    precision: str  # of the weights
    mixture: bool  # the model has routed experts
    layout: Layout
    isl: float  # nominal, tokens
    osl: float
    concurrency: float  # clients
    date: str  # of the run, ISO 8601; "" where it is not recorded
    replicas: float = 1.0  # that decode
    prompts: Layout | None = None  # degrees of a pool for prompts; None: there is none
    prompt_replicas: float = 1.0  # of that pool
    drafting: bool = False  # tokens were drafted; how many is not said


@dataclasses.dataclass(frozen=True)
class Launch:
    """Flags of one run, in the words of `jaxroof serve`."""

    engine: str  # "vllm@0.12.0"
    policy: Mapping[str, Any]  # `--policy`, numbers of all attention groups together
    deployment: Mapping[str, Any]  # `--set deployment.NAME`
    prefill: Mapping[str, Any]  # `--prefill NAME`
    kv: str | None
    router: str | None  # of requests to replicas
    shortest: float  # shortest length over nominal
    assumed: str | None  # what the flags are, where no script of the suite is known for the device


CONDITIONS: dict[str, Callable[[LoggedRun, Any], bool]] = {
    "suite": lambda run, value: run.family == value,
    "engine": lambda run, value: run.engine == value,
    "vendor": lambda run, value: run.vendor == value,
    "not_vendors": lambda run, value: run.vendor not in value,
    "model": lambda run, value: run.model_name.startswith(tuple(value)),
    "mixture": lambda run, value: run.mixture == value,
    "four_bit_unit": lambda run, value: ("fp4" in run.hardware.matrix) == value,
    "bits": lambda run, value: bits(run.precision) <= value,
    "bits_above": lambda run, value: bits(run.precision) > value,
    "from": lambda run, value: numbers(run.version) >= numbers(value),
    "before": lambda run, value: numbers(run.version) < numbers(value),
    "versionless": lambda run, value: (not numbers(run.version)) == value,
    "dated_from": lambda run, value: bool(run.date) and datetime.date.fromisoformat(run.date[:10]) >= value,
    "dated_before": lambda run, value: bool(run.date) and datetime.date.fromisoformat(run.date[:10]) < value,
    "isl": lambda run, value: run.isl == value,
    "osl": lambda run, value: run.osl == value,
    "tp_below": lambda run, value: run.layout.tp < value,
    "groups_above": lambda run, value: run.layout.groups > value,
    "groups_below": lambda run, value: run.layout.groups < value,
    "prompt_groups_below": lambda run, value: _prompts(run).groups < value,
    "clients_above": lambda run, value: run.concurrency > value,
    "clients_per_replica_above": lambda run, value: run.concurrency / run.replicas > value,
    "gpu": lambda run, value: run.gpu in value,
    "pools": lambda run, value: (run.prompts is not None) == value,
    "drafting": lambda run, value: run.drafting == value,
}
"""Key of `when` -> whether a run is of its value."""

NAMES: dict[str, Callable[[LoggedRun], float]] = {
    "isl": lambda run: run.isl,
    "osl": lambda run: run.osl,
    "clients": lambda run: run.concurrency,
    "groups": lambda run: run.layout.groups,
    "prompt_groups": lambda run: _prompts(run).groups,
    "replicas": lambda run: run.replicas,
}
"""Name in an expression -> its number."""


def _prompts(run: LoggedRun) -> Layout:
    """Degrees of what works on prompts."""
    return run.layout if run.prompts is None else run.prompts


def launch(run: LoggedRun) -> Launch:
    """The flags of one run: those of every entry that holds for it, of which later ones win."""
    flags: dict[str, Any] = {name: {} for name in TABLES}
    # The file goes from the general to the particular: later entries win.
    for table in launches():
        if all(CONDITIONS[key](run, value) for key, value in table["when"].items()):
            for key, value in table.items():
                flags[key] = {**flags[key], **value} if key in TABLES else value
    groups = dict.fromkeys(OF_ONE_GROUP, run.layout.groups) | {"token_budget": _prompts(run).groups}
    # A run without a recorded version is taken as one of the newest release with evidence.
    engine = flags.get("engine") or (f"{run.engine}@{run.version}" if numbers(run.version) else run.engine)
    policy = {name: _number(value, run, name) for name, value in flags["policy"].items()}
    # Defaults of the engine are per attention group as well, so that they are multiplied like flags.
    defaults = hwspaces.engine(engine).policy
    policy = {name: defaults[name] for name, number in groups.items() if number > 1.0 and name in defaults} | policy
    return Launch(
        engine=engine,
        policy={name: value * groups[name] if name in groups else value for name, value in policy.items()},
        deployment=flags["deployment"],
        prefill=flags["prefill"],
        kv=flags.get("kv"),
        router=flags.get("router"),
        shortest=flags.get("shortest", 1.0),
        assumed=flags.get("assumed"),
    )


@functools.cache
def launches(path: Path = FILE) -> tuple[Mapping[str, Any], ...]:
    """Every entry of the file, checked.

    Raises:
      ValueError: one line that names the file, the entry, the key and what is allowed.
    """
    tables = document.toml(path)
    entries = tables.get("launch", [])
    for place, table in enumerate(entries, start=1):
        where = f"{path.name}: launch {place}"
        require_keys(table, KEYS, where)
        if not isinstance(table.get("source"), str) or not isinstance(table.get("when"), Mapping):
            raise ValueError(f"{where}: source and when are needed")
        require_keys(table["when"], tuple(CONDITIONS), f"{where}: when")
        for key, kind in TABLES.items():
            declared = declarations(kind)
            require_keys(table.get(key, {}), tuple(declared), f"{where}: {key}")
            for name, value in table.get(key, {}).items():
                # Probabilities may be several; expressions are checked when a run gives their names numbers.
                if name == ACCEPTANCE:
                    acceptance(value, f"{where}: {key}.{name}")
                elif not _is_expression(value, declared[name].unit):
                    declared_quantity(value, declared[name], f"{where}: {key}.{name}")
    return tuple(entries)


def _is_expression(value: Any, unit: str) -> bool:
    return isinstance(value, str) and unit == "1"


def _number(value: Any, run: LoggedRun, name: str) -> Any:
    """A number of the policy: of an expression its value, a text with a unit as it is."""
    if name == ACCEPTANCE or not _is_expression(value, declarations(Policy)[name].unit):
        return value
    expression = Expression(value, lambda word: _unit(word, name), {}, f"policy.{name}", "1")
    return float(expression.value(lambda word: NAMES[word](run), None))


def _unit(word: str, name: str) -> str:
    if word not in NAMES:
        raise ValueError(f"policy.{name}: {word} is not known{nearest(word, NAMES)}")
    return "1"
