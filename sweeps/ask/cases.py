"""One named case: hardware, model, deployment and workload by name and number, checked and made a Scenario."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import hwspaces
import workloads
from hwspaces.quantities.units import nearest, plain_arguments
from jaxroof.deployment import Deployment
from jaxroof.jobs import JOBS, Scenario
from jaxroof.jobs.composition import Requests
from jaxroof.memory.legality import crosses_domain, first_broken
from jaxroof.model import Experts, Model
from jaxroof.numerics.struct import required
from jaxroof.step.forward import as_run, without_fallbacks
from sweeps.ask.acceptances import acceptance
from sweeps.ask.axes import number, replaced
from sweeps.ask.deployments import (
    PREFIX,
    neighbour_entry,
    neighbour_notes,
    neighbour_requests,
    neighbour_tenant,
    pool_of,
    require_drafts,
    require_legal,
    with_draft,
    with_settings,
)
from sweeps.ask.effects import facts, given_paths, require_effect
from sweeps.ask.engines import chosen, unsupported, with_host
from sweeps.ask.keys import question_of, takes
from sweeps.ask.laws import require_free, with_laws
from sweeps.ask.leaves import leaf_number
from sweeps.ask.precisions import KV_BYTES as KV_BYTES
from sweeps.ask.precisions import (
    attention_note,
    compute_precisions,
    device_notes,
    require_cache,
    slower_cache,
    weight_only_notes,
)
from sweeps.ask.training import training_workload
from sweeps.ask.words import CaseWords

SCALED_BYTE = 1.0 + 4.0 / 128.0
"""B per element of activations in 8 bits with a scale of 4 B per 128, as kernels that send tokens to experts pack
them. Source: DeepEP, README.md, "FP8 dispatching"."""

COMMUNICATION_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0}
"""B per element that collectives send, by precision."""

ACCEPTANCE = "workload.acceptance"
"""Path of the chance that a drafted token is right, which may be several numbers."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A scenario and where each of its parts is from."""

    hardware: hwspaces.HardwareEntry
    model: workloads.ModelEntry
    efficiency: hwspaces.EfficiencyEntry
    scenario: Scenario
    kv: str  # precision of the KV cache in words, as the scenario has it
    engine: hwspaces.EngineEntry  # whose rules the deployment follows; of training: the constants'

    @property
    def model_notes(self) -> tuple[str, ...]:
        """Notes on the model alone: the precision of its weights and its source, and what was assumed of it."""
        return (f"weights {self.model.precision} (from {self.model.precision_source})", *self.model.notes)

    @functools.cached_property
    def notes(self) -> tuple[str, ...]:
        """Notes for a reader: precision and its source, assumptions, a ring that leaves its domain, a slow cache."""
        notes = [*self.model_notes, *weight_only_notes(self.hardware, self.model.model), *self.hardware.assumptions]
        if bool(crosses_domain(self.scenario.hardware, self.scenario.deployment)):
            notes.append("the replica exceeds its scale-up domain: some collectives run over the scale-out link")
        if not self.model.model.generates:
            notes.append("an encoder: TTFT is the time of the batch; tokens per second count one output per request")
        # A note, not an error: the cost is defined beyond the positions that the checkpoint states.
        work, longest = self.scenario.workload, self.model.max_position
        if isinstance(work, Requests) and longest is not None and work.isl + work.osl > longest:
            notes.append(f"isl + osl = {work.isl + work.osl:g} exceeds the model's {longest:g} positions")
        slower = slower_cache(self.scenario)
        notes += [slower] if slower else []
        computed = attention_note(self.scenario)
        notes += [computed] if computed else []
        # One note may come from several sources: duplicates are dropped, the order stays.
        return tuple(dict.fromkeys(notes))


@takes(CaseWords)
@plain_arguments
def case(
    job: str,
    hardware: str,
    model: str,
    *,
    workload: Mapping[str, Any],
    check: bool = True,
    prefill: Mapping[str, Any] | None = None,
    neighbour: Mapping[str, Any] | None = None,
    laws: Mapping[str, str] | None = None,
    **words: Any,
) -> Case:
    """Everything that one answer depends on, from names and numbers.

    Args:
      job: "request", "step" or "train".
      hardware, model: catalogue names or files.
      workload: numbers of the job's workload: batch, isl, osl, cached; or prefill, prefills, past, decode, context.
      check: refuse a deployment that cannot be, and settings that change nothing (`sweeps.ask.effects`).
      prefill: of a disaggregated job, the prefill pool: hardware, efficiency and settings of its deployment, by name;
        what is not said is as in the decode pool, which the other arguments describe.
      neighbour: of a colocated job, the other model: model, weights, batch, isl, osl, cached, and settings of its
        deployment, by name.
      laws: any leaf by dotted path, an expression of other leaves that it follows from:
        {"hardware.matrix.bf16": "cores.count * cores.clock * cores.matrix_flops_per_clock.bf16"}.
      **words: of `sweeps.ask.words.CaseWords`: the deployment's settings, precisions, constants, prices, engine ...
        In overrides is any leaf by dotted path, a number in SI units or text with a unit:
        {"hardware.memory.hbm.bandwidth": "8TB/s"}.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    wanted = question_of(CaseWords, hardware=hardware, model=model, **words)
    return case_of(job, wanted, workload, check=check, prefill=prefill, neighbour=neighbour, laws=laws)


def case_of(
    job: str,
    asked: CaseWords,
    workload: Mapping[str, Any],
    *,
    check: bool = True,
    prefill: Mapping[str, Any] | None = None,
    neighbour: Mapping[str, Any] | None = None,
    laws: Mapping[str, str] | None = None,
) -> Case:
    """The case that words ask for; the other arguments as of `case`."""
    # Parts by name: the device at its price, the checkpoint with its draft model, the engine with its constants.
    device = device_named(asked.hardware, asked.prices, asked.overrides)
    entry = with_draft(workloads.model(asked.model, weights=asked.weights), asked.draft)
    # Kernels do not convert weights that are trained; with LoRA the frozen ones may stay converted.
    if job == "train" and workload.get("lora") is None:
        entry = dataclasses.replace(entry, model=without_fallbacks(entry.model))
    of = chosen(asked.engine, asked.efficiency)
    constants, served = of.constants, None if job == "train" else of.engine
    why = None if asked.engine is None else unsupported(of.engine, device.vendor)
    if why:
        raise ValueError(f"{device.name}: {why}")
    if job == "disaggregated" and served is not None and workload.get("hidden_host") is None:
        workload = {**workload, "hidden_host": served.policy.get("hidden_host", 0.0)}
    # The base scenario, before any setting of the user.
    scenario = Scenario(
        hardware=device.hardware,
        model=entry.model,
        deployment=deployment_of(entry, asked, served),
        workload=_workload(job, _placed(laws or {}) | dict(workload), entry),
        efficiency=constants.efficiency,
    )
    # Settings by full path; those of the hardware are in `device` already.
    settings = {f"{PREFIX}{name}": value for name, value in asked.deployment.items()}
    settings |= {path: value for path, value in asked.overrides.items() if not path.startswith("hardware.")}
    scenario = dataclasses.replace(
        scenario, deployment=with_settings(scenario.deployment, under(settings, "deployment"))
    )
    # What the engine's host adds depends on the deployment, so that is final before.
    if served is not None:
        place = device.vendor, device.hardware, entry.model, scenario.deployment
        pools = job == "disaggregated" or bool(prefill)
        scenario = dataclasses.replace(scenario, efficiency=with_host(of, scenario.efficiency, *place, pools))
    for path in [path for path in settings if path.startswith("efficiency.")]:  # before others have the same constants
        scenario = with_number(scenario, path, settings.pop(path))
    # Jobs with a second pool or a second model get it before other leaves are set, which may lie in it.
    pool = None
    if job == "disaggregated" or prefill:
        shared = dataclasses.replace(constants, efficiency=scenario.efficiency)
        pool = pool_of(prefill or {}, entry, device, shared, scenario.deployment, asked.prices)
        require_precisions(pool.hardware, entry, pool.pool.deployment)
        entry = dataclasses.replace(entry, notes=(*entry.notes, *device_notes(pool.hardware, entry.model)))
        scenario = dataclasses.replace(scenario, prefill=pool.pool)
    if job == "colocated":
        beside = neighbour or {}
        other = neighbour_entry(beside)
        # The neighbour's deployment is at the precisions of its own checkpoint, under the same engine.
        own = deployment_of(other, asked, served)
        requests = _workload("request", neighbour_requests(beside), other)
        tenant = neighbour_tenant(beside, other, own, requests, scenario)
        require_precisions(device, other, tenant.deployment)
        scenario = dataclasses.replace(scenario, neighbour=tenant)
        entry = dataclasses.replace(entry, notes=(*entry.notes, *neighbour_notes(other)))
    # All remaining leaves, then the laws, which read final numbers.
    for path, value in settings.items():
        if not path.startswith(PREFIX):
            scenario = with_number(scenario, path, value)
    scenario = with_laws(scenario, laws or {})
    # Refusals that need the finished scenario: numbers that laws set, precisions without a figure, drafts without a
    # number.
    require_free(scenario, asked.overrides)
    require_precisions(device, entry, scenario.deployment)
    require_cache(device, cache_precision(entry, asked.kv, served))
    require_drafts(asked.draft, scenario.deployment, getattr(scenario.workload, "acceptance", None))
    if check:
        if pool is not None and scenario.prefill is not None:
            require_legal(dataclasses.replace(pool, pool=scenario.prefill), entry)
        broken = first_broken(JOBS[job].rules(scenario))
        if broken:
            raise ValueError(f"{entry.name} on {device.name}: {broken}")
        numbers = {name for name, value in workload.items() if value is not None}
        given = given_paths(asked, numbers, prefill=prefill or (), neighbour=neighbour or ())
        require_effect(given, facts(scenario))
    cache = cache_text(scenario.deployment, cache_precision(entry, asked.kv, served))
    return Case(device, entry, constants, scenario, cache, of.engine)


def _placed(laws: Mapping[str, str]) -> dict[str, float]:
    """A number for everything of the workload that follows from a law, until the law sets it."""
    return {path.removeprefix("workload."): 1.0 for path in laws if path.startswith("workload.")}


def with_number(scenario: Scenario, path: str, value: Any) -> Scenario:
    """`scenario` with the number at `path` as a user writes it; ValueError in one line where there is none."""
    number(scenario, path)
    return replaced(scenario, path, leaf_number(path, value))


def device_named(name: str, prices: str | None, settings: Mapping[str, Any]) -> hwspaces.HardwareEntry:
    """The accelerator of that name at its price, with the figures of `settings` that are the hardware's."""
    own = {path: value for path, value in settings.items() if path.startswith("hardware.")}
    device = hwspaces.priced(hwspaces.hardware(name), prices)
    return hwspaces.overridden(device, own) if own else device


def under(paths: Mapping[str, Any], root: str) -> dict[str, Any]:
    """Values of the paths below `root`, by the rest of their paths."""
    prefix = f"{root}."
    return {path.removeprefix(prefix): value for path, value in paths.items() if path.startswith(prefix)}


def deployment_of(entry: workloads.ModelEntry, asked: CaseWords, engine: hwspaces.EngineEntry | None) -> Deployment:
    """A deployment on one device at the precisions that words ask for, checkpoint and engine beside them."""
    return model_deployment(entry, asked.kv, asked.communication, engine)


def model_deployment(
    entry: workloads.ModelEntry,
    kv: str | None,
    communication: str | None = None,
    engine: hwspaces.EngineEntry | None = None,
) -> Deployment:
    """A deployment on one device at the precisions that checkpoint and engine ask for, its KV cache at `kv` if given.

    Args:
      engine: whose memory rule and precisions it has; None: the defaults of `Deployment`.
    """
    # Collectives send 16-bit elements unless words say otherwise.
    sent = communication or "bf16"
    if sent not in COMMUNICATION_BYTES:
        close = nearest(sent, COMMUNICATION_BYTES)
        raise ValueError(f"communication = {sent!r} is not a precision of communication{close}")
    cache = cache_precision(entry, kv, engine)
    compute = entry.model.head.compute
    own = {} if engine is None else dict(engine.deployment)
    # Engines that quantise before the exchange send 8-bit activations and their scales to the experts.
    if engine is not None and engine.precisions.dispatch == "activations" and _takes_8_bits(entry.model):
        own["dispatch_bytes"] = SCALED_BYTE
    # Attention is multiplied in 8 bits only where the engine takes the cache as it is and the weights are narrow too.
    narrow = engine is not None and engine.precisions.attention == "cache" and cache == "fp8"
    if narrow and compute_precisions(entry.model) & {"fp8", "fp4"}:
        compute = "fp8"
    # An output head in another format, such as int8, does not set the precision of attention: it stays at 16 bits.
    settings: dict[str, Any] = {
        "kv_bytes": KV_BYTES[cache],
        "communication_bytes": COMMUNICATION_BYTES[sent],
        "attention_compute": compute if compute in ("fp32", "tf32", "bf16", "fp16", "fp8") else "bf16",
    }
    return Deployment(**(own | settings))


def _takes_8_bits(model: Model) -> bool:
    """Whether the routed experts of any layer take 8-bit activations."""
    routed = (block.feedforward for block in model.blocks if isinstance(block.feedforward, Experts))
    return any(layer.up.compute in ("fp8", "int8") for layer in routed)


def cache_precision(entry: workloads.ModelEntry, kv: str | None, engine: hwspaces.EngineEntry | None = None) -> str:
    """Precision of the KV cache; ValueError for an unknown one.

    It is `kv`, else what the checkpoint says, else what the engine has beside such weights, else fp16 where the whole
    model was asked for in it, else bf16.
    """
    half = entry.precision_source == "weights" and entry.model.head.compute == "fp16"
    beside = {} if engine is None else engine.precisions.cache
    usual = next((cache for begins, cache in beside.items() if entry.precision.startswith(begins)), None)
    cache = kv or entry.kv_precision or usual or ("fp16" if half else "bf16")
    if cache not in KV_BYTES:
        raise ValueError(f"kv = {cache!r} is not a precision of the KV cache{nearest(cache, KV_BYTES)}")
    return cache


def cache_text(deployment: Deployment, name: str) -> str:
    """Precision of a deployment's KV cache in words: `name`, or its bytes where they were set to other ones."""
    return name if KV_BYTES[name] == deployment.kv_bytes else f"{float(deployment.kv_bytes):g} B per element"


HALF_HINT = "; weights fp16, or such as w4a16-fp16, run the model in fp16"
"""What helps on a device without bf16."""


WHOLE_HINT = {
    "int8": "; engines run int8 activations on int8 units alone, weights w8a16 multiplies at 16 bits",
    "fp8": "; weights w8a16 and w4a16 multiply at 16 bits",
    "fp4": "; weights w4a16 multiplies at 16 bits",
}
"""What helps where weights are not run weight-only."""


GGUF_HINT = "; a type of GGUF file takes another type after it: such as q4_k_m-fp32 or q4_k_m-bf16"
"""What helps with llama.cpp's types on a device without fp16."""


def require_precisions(device: hwspaces.HardwareEntry, entry: workloads.ModelEntry, deployment: Deployment) -> None:
    """ValueError when `device` has no matrix figure for a precision that the model's weights or attention need.

    What engines run weight-only there needs that of the other operand alone.
    """
    for precision in sorted(compute_precisions((as_run(entry.model, device.hardware), deployment))):
        try:
            hwspaces.require_precision(device, precision)
        except ValueError as error:
            # The hint names weights that the device can run: at fp16, weight-only, or of another GGUF type.
            half = precision == "bf16" and "fp16" in device.hardware.matrix
            hint = HALF_HINT if half else WHOLE_HINT.get(precision, "")
            if precision == "fp16" and "GGUF" in entry.precision:
                hint = GGUF_HINT
            raise ValueError(f"{error}{hint}") from None


def _workload(job: str, numbers: Mapping[str, Any], entry: workloads.ModelEntry) -> Any:
    if job == "train":
        return training_workload(numbers, leaf_number, any(block.cross is not None for block in entry.model.blocks))
    if JOBS[job].simulated:
        return None  # a stream of requests, which is drawn where it is simulated
    kind = JOBS[job].workload
    names = [field.name for field in dataclasses.fields(kind)]
    for name in numbers:
        if name not in names:
            raise ValueError(f"workload.{name} is not a number of a {job}{nearest(name, names)}")
    values: dict[str, Any] = {
        name: acceptance(value, ACCEPTANCE) if name == "acceptance" else leaf_number(f"workload.{name}", value)
        for name, value in numbers.items()
        if value is not None
    }
    if job == "disaggregated" and any(block.cross is not None for block in entry.model.blocks):
        raise ValueError(f"{entry.name} attends to an encoder's output, which a {job} job does not price")
    # Encoders of fixed input length, such as those of speech, need no number from the user.
    left_out = "encoder_tokens" in set(names) - set(values)
    if left_out and entry.encoder_positions is not None and entry.model.encoder is not None:
        values["encoder_tokens"] = float(entry.encoder_positions)  # what it always works on, such as 30 s of sound
    _check_encoder(values, entry)
    # A step prefills, decodes or does both; decoding needs the context in tokens that it attends to.
    if job == "step":
        if "prefill" not in values and "decode" not in values:
            raise ValueError("a step job needs workload.prefill, workload.decode, or both")
        if ("decode" in values) != ("context" in values):
            raise ValueError("workload.decode and workload.context belong together: give both or neither")
        if "decode" in values and not entry.model.generates:
            raise ValueError(f"{entry.name} is an encoder and decodes nothing: give workload.prefill alone")
        return kind(**values)
    # Every other job serves requests: prompt, cached part of it and output, all in tokens.
    missing = [name for name in required(kind) if name not in values]
    if missing:
        raise ValueError(f"a {job} job needs workload.{' and workload.'.join(missing)}")
    work = kind(**values)
    # At least one prompt token has to be computed, since the first output token follows from it.
    if work.cached >= work.isl:
        raise ValueError(f"workload.cached = {work.cached:g} must be below workload.isl = {work.isl:g}")
    if work.osl < 1:
        raise ValueError(f"workload.osl = {work.osl:g} must be at least 1")
    if work.osl > 1 and not entry.model.generates:
        raise ValueError(f"{entry.name} is an encoder and generates nothing: workload.osl must be 1")
    return work


def _check_encoder(values: Mapping[str, float | None], entry: workloads.ModelEntry) -> None:
    """ValueError when encoder tokens are given for a model without encoder, or missing where something needs them."""
    given, model = values.get("encoder_tokens"), entry.model
    if given is not None and model.encoder is None:
        raise ValueError(f"workload.encoder_tokens = {given:g}, but {entry.name} has no encoder")
    if given is None and values.get("encoder_inputs") is not None:
        raise ValueError(
            f"workload.encoder_inputs = {values['encoder_inputs']:g}: give workload.encoder_tokens, which they have"
        )
    if given is None and any(block.cross is not None for block in model.blocks):
        raise ValueError(f"{entry.name} attends to its encoder's output: give workload.encoder_tokens")
