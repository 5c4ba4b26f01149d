"""Mean power of one device in every engine step of a job, by what draws it."""

from jaxroof.deployment import degree
from jaxroof.energy import joules_by_part, power_known
from jaxroof.governor import power_by_part
from jaxroof.jobs.composition import Requests, micro_batches, pipelined_times
from jaxroof.jobs.request import REQUEST
from jaxroof.jobs.scenario import Scenario
from jaxroof.jobs.step import STEP
from jaxroof.overlap import overlapped_ops
from jaxroof.step import step_time
from jaxroof.struct import Scalar
from jaxroof.weight_only import as_run


def step_powers(scenario: Scenario) -> dict[str, dict[str, Scalar]]:
    """Mean power in W by field of `jaxroof.hardware.Energy`, and "static", shapes (), by engine step.

    Args:
      scenario: a static batch of requests, whose steps are "prefill" and "decode", or one "step". The powers of each
        add to its metric: `prefill_power`, `decode_power`, or `power`.

    Raises:
      ValueError: for another job, and where energy, static power or TDP of the hardware are unknown.
    """
    hardware, deployment, work = scenario.hardware, scenario.deployment, scenario.workload
    job = next((job for job in (REQUEST, STEP) if isinstance(work, job.workload)), None)
    if job is None:
        raise ValueError("power by part is of a static batch of requests or of one step")
    if not power_known(hardware):
        raise ValueError("the hardware's energy per operation, static power or TDP is unknown")
    batches = {name: batch for name, (_, batch) in job.steps(scenario).items()}
    times = {
        name: step_time(hardware, scenario.model, deployment, batch, scenario.efficiency)
        for name, batch in batches.items()
    }
    parts = 1.0
    if isinstance(work, Requests):
        parts = micro_batches(work, deployment)
        whole = pipelined_times(times["prefill"], times["decode"], scenario.model, deployment, work)
        times = dict(zip(times, whole, strict=True))
    share = parts / degree(deployment.pp)  # of the energy of one micro-batch in all stages
    found = {}
    for name, batch in batches.items():
        spent = joules_by_part(overlapped_ops(as_run(scenario.model, hardware), deployment, batch), hardware)
        core, other = ({part: share * joules for part, joules in each.items()} for each in spent)
        found[name] = power_by_part(times[name], core, other, hardware)
    return found
