"""Steps, requests, saturated engines, training, energy and dies, as parts of the matrix."""

from collections.abc import Iterator

import hwspaces
from jaxroof.numerics.arrays import eager
from sweeps.measure.validate.die_areas import die_areas
from sweeps.measure.validate.engine_steps import GROUPS, step_errors
from sweeps.measure.validate.single_requests import request_errors
from sweeps.measure.validate.training_passes import measured_passes, scored_passes
from tests.evidence import mlenergy, other_devices, saturated_throughput, step_cycles
from tests.evidence.engine_constants import engine_efficiencies
from tests.evidence.matrix_rows.part import Measured, Part, single
from tests.evidence.saturated_load import throughput
from tests.evidence.training_rows import training_runs
from tests.evidence.training_runs import scored_runs

STEPS, RUNS = "e2e/blis_step_cycles.csv", "e2e/tam_ground_truth.csv"

SERVING_FIT = ("H100-SXM", "H200-SXM", "B200-SXM")
"""Devices of whose served models in the silicon sample `serving_fit` has seen the TPOT."""


def steps(data: Measured) -> Iterator[Part]:
    """Wall times of single vLLM steps, which the fit of its host's times has seen."""
    found = step_errors(data.folder / STEPS, step_cycles.HARDWARE, engine_efficiencies()["vllm"])
    data.leave(found.left_out)
    for one in found.scored:
        yield single(
            kind="engine steps",
            case=GROUPS["batch"](one.step),
            device=step_cycles.HARDWARE,
            engine="vllm",
            release=step_cycles.RELEASE,
            fit="learned_fit",
            predicted=one.predicted,
            measured=one.step.seconds,
            model=one.step.model_name,
            load=f"{GROUPS['sequences'](one.step)} sequences",
        )


def requests(data: Measured) -> Iterator[Part]:
    """Requests that were served one at a time, which no fit sees."""
    found = request_errors(data.folder / RUNS, hwspaces.efficiency("learned").efficiency)
    data.leave(found.unpredicted)
    for one in found.scored:
        for metric, measured in one.served.measured.items():
            yield single(
                kind="single requests",
                case=metric,
                device=one.served.gpu,
                engine="vllm",
                fit="",
                predicted=one.predicted[metric],
                measured=measured,
                model=one.served.model,
            )


def saturated(data: Measured) -> Iterator[Part]:
    """Output tokens/s of saturated engines."""
    efficiencies = engine_efficiencies()
    for name, read in saturated_throughput.SOURCES.items():
        for row in read(data.folder, efficiencies):
            with eager():
                found = throughput(row, efficiencies[row.engine])
            seen = {"silicon": "serving_fit" if row.gpu in SERVING_FIT else "", "blis": "learned_fit"}
            if found > 0.0:
                yield single(
                    kind="saturated throughput",
                    case=row.source,
                    device=_device(row.gpu),
                    engine=row.engine,
                    fit=seen.get(name, ""),
                    predicted=found,
                    measured=row.tokens_per_second,
                    model="" if name == "blis" else row.label.split(",")[0].split(" ")[0],
                    load="30 B parameters and more" if row.large else "fewer parameters",
                )


def _device(name: str) -> str:
    """The catalogue's name of a device, where it knows it."""
    try:
        return hwspaces.hardware(name).name
    except ValueError:
        return name


def others(data: Measured) -> Iterator[Part]:
    """Accelerators that are not GPUs; a fit of links has seen static batches, and shares of arrays single products."""
    efficiency = hwspaces.efficiency("learned").efficiency
    for read in other_devices.SOURCES.values():
        left: other_devices.Left = []
        for one in read(data.folder, efficiency, left):
            yield single(
                kind="other accelerators",
                case=f"{one.case}, {one.metric}",
                device=one.device,
                fit="" if not one.fitted else "other_devices" if one.case == "kernel" else "neuron_fit",
                predicted=one.predicted,
                measured=one.measured,
                spread=one.spread,
                model="" if one.case == "kernel" else one.label.split(" ")[0],
            )
        data.leave(left)


def training(data: Measured) -> Iterator[Part]:
    """Passes of whole models in fp32 PyTorch, which the fit of its kernels does not see."""
    found, left = measured_passes(data.folder / RUNS)
    data.leave(left)
    for one in scored_passes(found, hwspaces.efficiency("eager_fp32").efficiency):
        label = one.label
        yield single(
            kind="training passes",
            case=label.mode,
            device=label.gpu,
            engine="pytorch",
            fit="",
            predicted=one.forward + one.backward,
            measured=label.total,
            model=label.model,
        )


def runs(data: Measured) -> Iterator[Part]:
    """Iterations of published training runs, MLPerf's among them, which no fit sees."""
    found, left = training_runs(data.folder)
    data.leave(left)
    for one in scored_runs(found, hwspaces.efficiency("learned").efficiency):
        run = one.run
        yield single(
            kind="training runs",
            case=run.precision,
            device=run.device,
            engine=run.engine,
            fit="",
            predicted=one.predicted,
            measured=run.seconds,
            model=run.case,
        )


def energy(data: Measured) -> Iterator[Part]:
    """Served models in steady decoding; energies were fitted to the power of half of them at the measured time."""
    for one in mlenergy.predicted(data.folder):
        for name, (predicted, measured) in mlenergy.FIGURES.items():
            yield single(
                kind="energy",
                case=name,
                device=one.steady.row.gpu,
                engine=one.steady.row.engine,
                fit="" if one.steady.held_out else "power_fit",
                predicted=predicted(one),
                measured=measured(one),
                model=one.steady.model,
            )


def areas(data: Measured) -> Iterator[Part]:
    """Dies of published size; those that are upper limits are left out."""
    known = {one.die: one for one in die_areas() if not one.limit}
    for one in known.values():
        fit = "area_fit" if one.fitted else ""
        yield single("die area", "die", one.die, fit, one.predicted, one.known)
