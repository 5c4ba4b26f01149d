"""Measured points of served models: every row of a file as a deployment with its load, or the reason why it is not."""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import hwspaces
import workloads
from jaxroof.batch import Policy
from jaxroof.deployment import Deployment
from jaxroof.model import Model, has_experts
from sweeps.ask.cases import Case
from sweeps.measure.validate.measured_csv import NOT_NEGATIVE, CsvRow, LeftOut, records, rows
from sweeps.measure.validate.serving.launches import (
    ENGINES,
    Launch,
    Layout,
    LoggedRun,
    launch,
    layout,
    scripted_degrees,
    suite,
)
from sweeps.measure.validate.serving.precisions import MICROSCALED, Checkpoint, labelled, precision_of
from sweeps.run.simulated.policies import chosen_policy, require_priced
from sweeps.run.simulated.spec import ServeSpec, serve_spec

NVIDIA_DEVICES = "NVIDIA"
"""Vendor, as the catalogue writes it, on whose devices the constants of engines were fitted."""

DEGREES = ("tp_size", "pp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
SIDES = ("prefill", "decode")
SIDE_NUMBERS = ("batch_size", "num_workers", *DEGREES)

LOAD = ("isl_tokens", "osl_tokens", "concurrency", "batch_size")
MEASURED = ("gt_ttft_ms", "gt_tpot_ms")
TEXTS = ("id", "model_path", "gpu", "backend", "backend_version", "gemm_quant_mode", "moe_quant_mode", "mode")
NUMBERS = (*LOAD, *DEGREES, *MEASURED, *(f"{side}_{column}" for side in SIDES for column in SIDE_NUMBERS))
COLUMNS = (*TEXTS, "source_tag", *LOAD, *DEGREES, *MEASURED)
"""Columns that a file must have. Columns of disaggregated rows and dates are read where they are."""

PRECISIONS = {"bf16": "bfloat16", "fp16": "float16", "fp8": "fp8", "fp4": "nvfp4", "int4": "int4_wo", "int8": "int8_wo"}
"""Value of `precision` -> the mode that it stands for where both modes are empty."""

OF_DYNAMO = {"0.8": "1.2.0rc6"}
"""Version of Dynamo's image -> that of TensorRT-LLM in it. Source: Dynamo's support matrix of release 0.8."""

OF_ONE_POOL = ("drafts", "imbalance")
"""Settings of a launch that go with a pool's degrees."""

ROUNDS = 10.0
"""Requests per client: InferenceX sends 10 times the concurrency (`--num-prompts`); NVIDIA's sweeps fit it too."""

SEED = 1
"""Of the requests' lengths, beside the row: every point has its own draw, the same in every run."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ServingPoint(LoggedRun):
    """One measured point of one kind of device."""

    row: int  # line of the file
    id: str
    label: str  # `model_path`
    modes: tuple[str, str]  # `gemm_quant_mode`, `moe_quant_mode`
    launch: Launch
    spec: ServeSpec  # the simulation of the row, as `jaxroof serve` takes it
    case: Case
    ttft: float  # s, mean, or median
    tpot: float  # s, the same
    repaired: bool  # degrees are not what the labels say
    suspect: str | None  # why the row does not say what ran; None: nothing speaks against it
    medians: bool = False  # times are medians over requests
    throughput: float | None = None  # output tokens/s of all devices; None: it follows from both times

    @property
    def model(self) -> Model:
        """Architecture at the precisions of the labels."""
        return self.case.scenario.model

    @property
    def deployment(self) -> Deployment:
        """How it was started."""
        return self.case.scenario.deployment

    @property
    def policy(self) -> Policy:
        """The scheduler of all attention groups together."""
        return chosen_policy(self.launch.engine, self.spec.policy)

    @property
    def requests(self) -> int:
        """Requests of the measurement."""
        return request_count(self.concurrency)


def request_count(clients: float) -> int:
    """Requests that a suite sends from so many clients."""
    return max(round(ROUNDS * clients), round(clients), 1)


def points(path: str | Path, pools: bool = False) -> tuple[list[ServingPoint], list[LeftOut]]:
    """Every row of a CSV file, as a point or as what is in its way.

    Args:
      path: a file with `COLUMNS`; its other columns are ignored.
      pools: rows of separate workers for prompts and for decoding are points too.

    Raises:
      ValueError: one line that names file, row, column and value: a missing or empty file, a missing column, text
        that is no number, a number that cannot be.
    """
    return records(rows(path, COLUMNS), lambda row: _point(row, pools), "id")


def assumptions(points: Sequence[ServingPoint], learned: bool) -> Counter[str]:
    """Sentences, one per device, engine and assumption, and how many of the points each is made for.

    Args:
      learned: whether the constants are the learned ones of each engine.
    """
    counts: Counter[str] = Counter()
    for point in points:
        place = f"{point.gpu} under {point.engine}"
        if point.launch.assumed is not None:
            counts[f"{place}: settings are {point.launch.assumed}"] += 1
        # What follows is assumed of other vendors' devices alone.
        if point.vendor == NVIDIA_DEVICES:
            continue
        if learned:
            counts[f"{place}: constants are those of learned-{point.engine}, fitted on NVIDIA's devices"] += 1
        if "nvfp4" in point.precision:
            counts[f"{place}: 4-bit weights are priced in NVIDIA's format, NVFP4"] += 1
    return counts


def _point(row: CsvRow, pools: bool) -> ServingPoint:
    """Raises ValueError with the reason why the row cannot be priced."""
    values = {column: row.number(column, NOT_NEGATIVE) for column in NUMBERS}
    if row["mode"] == "disagg":
        return _pools_point(row, values, pools)
    if row["mode"] not in ("agg", ""):
        raise ValueError(f"mode = {row['mode']!r} is not known")
    device, checkpoint, family = _named(row)
    entry = workloads.model(checkpoint.model, weights=checkpoint.weights)
    # Without clients, full batches on all attention groups stand for them.
    clients = values["concurrency"] or (values["batch_size"] or 0.0) * (values["attention_dp_size"] or 1.0)
    known = _required(values, ("isl_tokens", "osl_tokens", "tp_size", *MEASURED))
    if not clients:
        raise ValueError("neither concurrency nor batch_size is given")
    # Degrees that scripts chose without a label, then those that the labels mean.
    degrees = scripted_degrees(values, row["backend"], family, row["backend_version"], entry.name, device.hardware)
    run = LoggedRun(
        engine=row["backend"],
        version=row["backend_version"],
        family=family,
        gpu=device.name,
        vendor=device.vendor,
        hardware=device.hardware,
        model_name=entry.name,
        precision=entry.precision,
        mixture=has_experts(entry.model),
        layout=layout(degrees, family, has_experts(entry.model)),
        isl=known["isl_tokens"],
        osl=known["osl_tokens"],
        concurrency=clients,
        date=row.get("measured_date", ""),
    )
    return _point_of_sample(run, checkpoint, row, known, run.layout.repaired or degrees != values, run.layout.suspect)


def _point_of_sample(
    run: LoggedRun, checkpoint: Checkpoint, row: CsvRow, known: Mapping[str, float], repaired: bool, suspect: str | None
) -> ServingPoint:
    """The point of a row in aiconfigurator's form, whose numbers are `known`."""
    return served_point(
        run,
        checkpoint,
        row=row.line,
        id=row["id"],
        label=row["model_path"],
        modes=(row["gemm_quant_mode"], row["moe_quant_mode"]),
        ttft=known["gt_ttft_ms"] * 1e-3,
        tpot=known["gt_tpot_ms"] * 1e-3,
        repaired=repaired,
        suspect=suspect,
    )


def served_point(run: LoggedRun, checkpoint: Checkpoint, **measured: Any) -> ServingPoint:
    """The point of a run; ValueError with the reason why it cannot be priced.

    Args:
      checkpoint: its model as `jaxroof serve` names it.
      measured: fields of `ServingPoint` that the row says.
    """
    # Flags of the suite, over the engine's own defaults.
    flags = launch(run)
    spec = serve_spec(
        hardware=run.gpu,
        **checkpoint._asdict(),
        engine=flags.engine,
        kv=flags.kv,
        deployment=_deployment(run, flags),
        prefill={} if run.prompts is None else _settings(run.prompts, run.prompt_replicas, flags.prefill),
        router=flags.router,
        policy=flags.policy,
        overrides=_overrides(run, flags),
        concurrency=max(round(run.concurrency), 1),
        requests=request_count(run.concurrency),
        isl=lengths_text(run.isl, flags.shortest),
        osl=lengths_text(run.osl, flags.shortest),
        seed=SEED + measured["row"],
    )
    case = spec.case()
    # Some models have parts that the simulator has no price for.
    require_priced(run.model_name, case.scenario.model, case.scenario.deployment)
    return ServingPoint(**vars(run), **measured, launch=flags, spec=spec, case=case)


def lengths_text(nominal: float, shortest: float) -> str:
    """Whole lengths from `shortest` times nominal to nominal, all alike, at least 1, as `--isl` takes them.

    Source: `--dataset-name random --random-range-ratio --num-prompts --max-concurrency --request-rate inf` of the
    benchmark scripts of vLLM and InferenceX.
    """
    tokens = max(int(nominal), 1)
    # Where the shortest length rounds to the nominal one, all requests are alike.
    return f"{tokens}" if int(tokens * shortest) >= tokens else f"sglang-range:tokens={tokens},ratio={shortest:g}"


def _deployment(run: LoggedRun, flags: Launch) -> dict[str, Any]:
    """Settings of what decodes: its degrees, and how many tokens it drafts."""
    drafts = {name: number for name, number in flags.deployment.items() if name == "drafts"}
    return _settings(run.layout, run.replicas, flags.deployment) | drafts


def _settings(spread: Layout, replicas: float, given: Mapping[str, Any]) -> dict[str, Any]:
    """Degrees of one pool, and how uneven the work of its experts' devices is."""
    uneven = {name: number for name, number in given.items() if name == "imbalance" and spread.ep > 1.0}
    return _degrees(spread, replicas) | uneven


def _degrees(spread: Layout, replicas: float) -> dict[str, int]:
    """Degrees as flags; those of 1 are left out, but for tp."""
    degrees = {"tp": spread.tp, "pp": spread.pp, "attention_dp": spread.groups, "ep": spread.ep, "dp": replicas}
    return {name: int(value) for name, value in degrees.items() if name == "tp" or value != 1.0}


def _overrides(run: LoggedRun, flags: Launch) -> dict[str, Any]:
    """Leaves of the deployment that a launch sets, by path; a step's activations are those of its token budget."""
    overrides = {f"deployment.{name}": value for name, value in flags.deployment.items() if name not in OF_ONE_POOL}
    # A device alone has nothing to communicate.
    if run.layout.tp * run.layout.groups == 1.0:
        overrides.pop("deployment.communication_bytes", None)
    # The budget is of all attention groups together; activations are held by each.
    budget = flags.policy.get("token_budget")
    groups = (run.prompts or run.layout).groups
    return overrides | ({} if budget is None else {"deployment.max_batched_tokens": budget / groups})


def _named(row: CsvRow) -> tuple[hwspaces.HardwareEntry, Checkpoint, str]:
    """Device, model and suite of a row; ValueError for what is not known."""
    if row["backend"] not in ENGINES:
        raise ValueError(f"backend = {row['backend']!r} is not known; known: {', '.join(ENGINES)}")
    device = hwspaces.hardware(row["gpu"])
    gemm, moe = row["gemm_quant_mode"], row["moe_quant_mode"]
    if not gemm and not moe:
        # Files of another form have one precision for the whole model.
        gemm = moe = PRECISIONS.get(row.get("precision", ""), "")
    return device, checkpoint_of(row["backend"], device, row["model_path"], gemm, moe), suite(row["source_tag"])


def checkpoint_of(engine: str, device: hwspaces.HardwareEntry, name: str, gemm: str, moe: str) -> Checkpoint:
    """The checkpoint of the labels, its MXFP4 experts multiplied as the engine does it on the device."""
    checkpoint = labelled(name, gemm, moe)
    # Where matrix units multiply 4 bits, some engines quantise activations of MXFP4 experts as well.
    four_bits = device.vendor == NVIDIA_DEVICES and "fp4" in device.hardware.matrix
    if four_bits and hwspaces.engine(engine).precisions.microscaled and precision_of(checkpoint).startswith("mxfp4"):
        return labelled(name, gemm, MICROSCALED)
    return checkpoint


def _required(values: Mapping[str, float | None], columns: tuple[str, ...]) -> dict[str, float]:
    """Numbers of these columns; ValueError where one is missing or 0."""
    numbers = {}
    for column in columns:
        value = values[column]
        # None of these columns may be 0: a time, a length or a number of devices.
        if not value:
            raise ValueError(f"{column} is {'empty' if value is None else '0'}")
        numbers[column] = value
    return numbers


def _pools_point(row: CsvRow, values: dict[str, float | None], wanted: bool) -> ServingPoint:
    """The point of separate workers for prompts and for decoding; ValueError with the reason why there is none."""
    device, checkpoint, family = _named(row)
    known = _required(values, ("isl_tokens", "osl_tokens", "concurrency", *MEASURED))
    workers = {side: _required(values, (f"{side}_tp_size", f"{side}_num_workers")) for side in SIDES}
    if not wanted:
        raise ValueError("it has pools of workers, which are not asked for")
    entry = workloads.model(checkpoint.model, weights=checkpoint.weights)
    mixture = has_experts(entry.model)
    degrees = {side: {column: values[f"{side}_{column}"] for column in DEGREES} for side in SIDES}
    load = {"concurrency": known["concurrency"], "batch_size": None}
    prompts, decoding = (layout(degrees[side] | load, family, mixture) for side in SIDES)
    version = row["backend_version"]
    # Images of Dynamo name its release, not that of the engine in them.
    version = OF_DYNAMO.get(".".join(version.split(".")[:2]), version) if row["backend"] == "trtllm" else version
    run = LoggedRun(
        engine=row["backend"],
        version=version,
        family=family,
        gpu=device.name,
        vendor=device.vendor,
        hardware=device.hardware,
        model_name=entry.name,
        precision=entry.precision,
        mixture=mixture,
        layout=decoding,
        isl=known["isl_tokens"],
        osl=known["osl_tokens"],
        concurrency=known["concurrency"],
        date=row.get("measured_date", ""),
        replicas=workers["decode"]["decode_num_workers"],
        prompts=prompts,
        prompt_replicas=workers["prefill"]["prefill_num_workers"],
    )
    repaired, suspect = prompts.repaired or decoding.repaired, prompts.suspect or decoding.suspect
    return _point_of_sample(run, checkpoint, row, known, repaired, suspect)
