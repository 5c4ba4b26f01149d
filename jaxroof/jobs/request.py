"""Job of a static batch of requests: its latencies, throughput, utilisation, power and memory."""

from jaxroof.deployment import Deployment, degree, replica_devices
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import Joules, joules_by_part, joules_of_steps, power_known
from jaxroof.energy.governor import mean_power, power_by_part
from jaxroof.hardware import Hardware
from jaxroof.jobs.composition import (
    RequestCost,
    Requests,
    decode_batch,
    device_energy,
    limited_times,
    micro_batches,
    pipelined_latency,
    pipelined_times,
    prefill_batch,
    tokens_per_second,
    tokens_per_step,
)
from jaxroof.jobs.economics import binding, clocks, economics, step_joules
from jaxroof.jobs.fit import fit
from jaxroof.jobs.job import Job, Part, Steps, extrapolations, spreads
from jaxroof.jobs.scenario import Metric, Scenario, higher, lower
from jaxroof.jobs.step import STEP
from jaxroof.model import Model
from jaxroof.numerics.at_once import differentiated_at_once
from jaxroof.numerics.smooth import positive_part
from jaxroof.numerics.struct import Scalar
from jaxroof.op import BOUNDS
from jaxroof.step.placed import device_ops
from jaxroof.step.step import Terms, step_time, steps_time

PHASES = ("prefill", "decode")
"""Steps of a request, in their order."""

METRICS = {
    "ttft": lower("s", "time to first token, arrival to first token"),
    "tpot": lower("s", "time per output token after the first: (e2e - ttft) / (output tokens - 1)"),
    "e2e": lower("s", "end-to-end latency, arrival to last token"),
    "tokens_per_second_per_request": higher("1/s", "output tokens per second of one request: 1 / tpot"),
    "prefill_power": lower("W", "mean electrical power of one device during prefill"),
    "decode_power": lower("W", "mean electrical power of one device during decode"),
    "prefill_slowdown": lower("1", "prefill time over that without a limit of electrical power"),
    "decode_slowdown": lower("1", "decode time over that without a limit of electrical power"),
    "prefill_clock": higher("Hz", "clock of the cores during prefill, under the limit of electrical power"),
    "decode_clock": higher("Hz", "clock of the cores during decode, under the limit of electrical power"),
    "energy_delay_product": lower("J s", "energy per output token times time per output token"),
    "prefill_mfu": higher("1", "model FLOP utilisation of the prefill step"),
    "decode_mbu": higher("1", "memory bandwidth utilisation of the decode step"),
    "prefill_bound": Metric(
        "1", "what binds prefill: power where that slows it, else the resource of most time", BOUNDS
    ),
    "decode_bound": Metric("1", "what binds decode: power where that slows it, else the resource of most time", BOUNDS),
}
"""Metrics of requests beside those of money, memory and errors."""


@differentiated_at_once
def request_cost(
    hardware: Hardware, model: Model, deployment: Deployment, requests: Requests, efficiency: Efficiency
) -> RequestCost:
    """TTFT, TPOT and E2E latency of a static batch, shapes ().

    ttft = request_time + delay + step_time(prefill) (1 + (m - 1) s)
    tpot = step_time(decode at the mean context) max(1, m s) / tokens_per_step
    e2e = ttft + (osl - 1) tpot, so that tpot is vLLM's: (e2e - ttft) / (osl - 1)

    m micro-batches follow each other through the pipeline, whose largest stage has the share s of the layers; without
    pipeline stages both are 1. The mean over decode steps is exact while attention time is linear in the context, that
    is while one resource binds it over the whole output. With osl = 1 there is no decode step and tpot says what one
    would take. Differentiable in every leaf.
    """
    steps = prefill_batch(requests, model, deployment), decode_batch(requests, model, deployment)
    prefill, decode = steps_time(hardware, model, deployment, steps, efficiency)
    energies = None
    if power_known(hardware):
        energies = tuple(joules_of_steps([device_ops(hardware, model, deployment, one) for one in steps], hardware))
    times = pipelined_times(prefill, decode, model, deployment, requests)
    times = limited_times(times, energies, hardware, deployment, requests)
    return pipelined_latency(*times, deployment, requests, efficiency)


def request_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    """Metrics of a static batch of requests, by name, from terms that are summed over ops."""
    requests = scenario.workload
    model, deployment = scenario.model, scenario.deployment
    unlimited = pipelined_times(sums["prefill"], sums["decode"], model, deployment, requests)
    of_prefill, of_decode = step_joules(sums, "prefill"), step_joules(sums, "decode")
    energies = None if of_prefill is None or of_decode is None else (of_prefill, of_decode)
    times = prefill_time, decode_time = limited_times(unlimited, energies, scenario.hardware, deployment, requests)
    cost = pipelined_latency(*times, deployment, requests, scenario.efficiency)
    # Of parts micro-batches each device does 1 / pp of the work.
    busy = micro_batches(requests, deployment) / degree(deployment.pp)  # floors are of one micro-batch in all stages
    encoded = decode_batch(requests, model, deployment).encoded
    # Errors of a step's ops scale with how long the pipeline and the limit of power make it.
    prefill = Part.of(prefill_time / sums["prefill"], sums, "prefill")
    decode = Part.of(cost.tpot / sums["decode"], sums, "decode")
    output = decode._replace(runs=decode.runs * positive_part(requests.osl - 1.0))
    power = _request_power(scenario, cost, times, unlimited, energies)
    place, output_rate = (scenario.hardware, deployment), tokens_per_second(cost, requests)
    return {
        "ttft": cost.ttft,
        "tpot": cost.tpot,
        "e2e": cost.e2e,
        "tokens_per_second_per_request": 1.0 / cost.tpot,
        **spreads("ttft", cost.ttft, (prefill,), scenario.efficiency),
        **spreads("tpot", cost.tpot, (decode,), scenario.efficiency),
        **spreads("e2e", cost.e2e, (prefill, output), scenario.efficiency),
        **extrapolations(sums, "prefill", "decode"),
        **economics(*place, output_rate, power.get("joules_per_token")),
        **power,
        "prefill_mfu": sums["prefill_matrix_floor"] * busy / prefill_time,
        "decode_mbu": sums["decode_memory_floor"] * busy / decode_time,
        "prefill_bound": binding(sums, "prefill", prefill_time, unlimited[0]),
        "decode_bound": binding(sums, "decode", decode_time, unlimited[1]),
        **fit(scenario, requests.isl + requests.osl, requests.batch, encoded),
    }


def _request_power(
    scenario: Scenario,
    cost: RequestCost,
    times: tuple[Scalar, Scalar],
    unlimited: tuple[Scalar, Scalar],
    energies: tuple[Joules, Joules] | None,
) -> dict[str, Scalar]:
    """Power of one device in both phases and over the whole batch, and energy per token of a replica's devices.

    Nothing where energy, static power or the limit are unknown. Static power is drawn from when the prompt is there to
    the last token.

    Args:
      times: s of the prefill and of one decode step of all micro-batches, as the limit stretches them.
      unlimited: the same without a limit.
      energies: of one micro-batch's steps in all stages.
    """
    if energies is None:
        return {}
    requests, deployment, static = scenario.workload, scenario.deployment, scenario.hardware.power.static
    prefill, decode = (
        mean_power(time, device_energy(energy, deployment, requests), scenario.hardware)
        for time, energy in zip(unlimited, energies, strict=True)
    )
    # A drafting step adds several tokens: fewer steps for the same output.
    steps = positive_part(requests.osl - 1.0) / tokens_per_step(deployment, requests)
    busy = cost.e2e - requests.delay
    # Energy over static power of both phases for their own time, static power for all of the time.
    total = (prefill - static) * times[0] + steps * (decode - static) * times[1] + static * busy
    # All devices of a replica, over all tokens of its batch.
    per_token = total * replica_devices(deployment) / (requests.batch * requests.osl)
    return {
        "power": total / busy,
        "prefill_power": prefill,
        "decode_power": decode,
        "prefill_slowdown": times[0] / unlimited[0],
        "decode_slowdown": times[1] / unlimited[1],
        **clocks(scenario.hardware, {f"{step}_clock": unlimited[i] / times[i] for i, step in enumerate(PHASES)}),
        "joules_per_token": per_token,
        "tokens_per_joule": 1.0 / per_token,
        "energy_delay_product": per_token * cost.tpot,
    }


def _steps(scenario: Scenario) -> Steps:
    place = scenario.workload, scenario.model, scenario.deployment
    return {"prefill": (scenario, prefill_batch(*place)), "decode": (scenario, decode_batch(*place))}


REQUEST = Job("request", Requests, request_metrics, _steps)


# Mean power of one device in every engine step of a job, by what draws it.


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
    # Times in s without a limit of electrical power, which `power_by_part` applies.
    times = {
        name: step_time(hardware, scenario.model, deployment, batch, scenario.efficiency)
        for name, batch in batches.items()
    }
    # Only requests run in micro-batches through the stages; one engine step is priced as it stands.
    parts = 1.0
    if isinstance(work, Requests):
        parts = micro_batches(work, deployment)
        pipelined = pipelined_times(times["prefill"], times["decode"], scenario.model, deployment, work)
        times = dict(zip(times, pipelined, strict=True))
    share = parts / degree(deployment.pp)  # of the energy of one micro-batch in all stages
    powers = {}
    for name, batch in batches.items():
        spent = joules_by_part(device_ops(hardware, scenario.model, deployment, batch), hardware)
        core, other = ({part: share * joules for part, joules in each.items()} for each in spent)
        powers[name] = power_by_part(times[name], core, other, hardware)
    return powers
