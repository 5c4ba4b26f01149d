"""Job of one engine step: its time, throughput, utilisation, power and memory."""

from jaxroof.batch import Batch, Decode, Prefill, encoder_inputs_count, encoder_tokens_count
from jaxroof.batch import encode as encode_batch
from jaxroof.deployment import degree, replica_devices
from jaxroof.energy.governor import limited_time, mean_power
from jaxroof.jobs.economics import binding, clocks, economics, step_joules
from jaxroof.jobs.fit import fit
from jaxroof.jobs.job import Job, Part, Steps, extrapolations, spreads
from jaxroof.jobs.scenario import Metric, Scenario, higher, lower
from jaxroof.model import Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Scalar, count, struct
from jaxroof.op import BOUNDS
from jaxroof.step.step import Terms

METRICS = {
    "step_time": lower("s", "time of one engine step"),
    "slowdown": lower("1", "time of the step over its time without a limit of electrical power"),
    "clock": higher("Hz", "clock of the cores in the step, under the limit of electrical power"),
    "mfu": higher("1", "model FLOP utilisation: matrix work at peak over time"),
    "mbu": higher("1", "memory bandwidth utilisation: bytes at peak HBM bandwidth over time"),
    "bound": Metric("1", "what binds the step: power where that slows it, else the resource of most time", BOUNDS),
}
"""Metrics of a step beside those of money, memory and errors."""


@struct
class StepWork:
    """One engine step: `prefills` prompts of `prefill` new tokens each, `decode` sequences of `context` tokens each."""

    prefills: Scalar = count("prompts in the step", default=1.0, flag="N")
    prefill: Scalar | None = count(
        "new prompt tokens per prefilling sequence",
        "none: no prefill in the step",
        condition=True,
        default=None,
        flag="TOKENS",
    )
    past: Scalar = count(
        "tokens of each prompt that are cached already", zero=True, condition=True, default=0.0, flag="TOKENS"
    )
    decode: Scalar | None = count(
        "decoding sequences", "one token each; none: no decode in the step", default=None, flag="N"
    )
    context: Scalar | None = count(
        "tokens per decoding sequence that are attended to",
        "the new one included",
        condition=True,
        default=None,
        flag="TOKENS",
    )
    encoder_tokens: Scalar | None = encoder_tokens_count()
    encoder_inputs: Scalar | None = encoder_inputs_count()


def step_batch(work: StepWork, model: Model) -> Batch:
    """The engine step that `work` describes."""
    prefill, decode, encode, encoded, logits = None, None, None, 0.0, 0.0
    if work.prefill is not None:
        prefill = Prefill(sequences=work.prefills, tokens=work.prefills * work.prefill, past=work.prefills * work.past)
        # Every prompt of the step is completed in it and samples a token.
        logits = logits + work.prefills
    if work.decode is not None:
        # `context` counts the new token.
        decode = Decode(sequences=work.decode, context=work.decode * work.context)
        logits = logits + work.decode
    if work.encoder_tokens is not None and model.encoder is not None:
        encoded = work.encoder_tokens / model.encoder.merged
        if work.prefill is not None:
            encode = encode_batch(work.prefills, work.encoder_tokens, work.encoder_inputs)
    return Batch(prefill=prefill, decode=decode, logits=logits, encode=encode, encoded=encoded)


def step_tokens(work: StepWork) -> Scalar:
    """Tokens that a step processes, which its figures per token are of: new ones of prompts, one per decoding sequence.

    The prompt's alone in a prefill step, output tokens in a decode step; prompt tokens that are cached do not count.
    """
    prompt = 0.0 if work.prefill is None else work.prefills * work.prefill
    return prompt + (0.0 if work.decode is None else work.decode)


def step_metrics(scenario: Scenario, sums: dict[str, Scalar], tables: dict[str, Terms]) -> dict[str, Scalar]:
    """Metrics of one engine step, by name, from terms that are summed over ops."""
    work = scenario.workload
    batch = step_batch(work, scenario.model)
    tokens = step_tokens(work)
    time, drawn = _limited_step(scenario, sums, tokens)
    prefill = jnp.zeros(()) if work.prefill is None else work.prefills * (work.prefill + work.past)
    decode = jnp.zeros(()) if work.decode is None else work.decode * work.context
    return {
        "step_time": time,
        **spreads("step_time", time, (Part.of(time / sums["step"], sums, "step"),), scenario.efficiency),
        **extrapolations(sums, "step"),
        **economics(scenario.hardware, scenario.deployment, tokens / time, drawn.get("joules_per_token")),
        **drawn,
        # A step is one micro-batch's way through all stages: each device works for 1 / pp of it.
        "mfu": sums["step_matrix_floor"] / (time * degree(scenario.deployment.pp)),
        "mbu": sums["step_memory_floor"] / (time * degree(scenario.deployment.pp)),
        "bound": binding(sums, "step", time),
        # Sequences are taken at their mean length.
        **fit(scenario, (prefill + decode) / batch.logits, batch.logits, batch.encoded),
    }


def _limited_step(scenario: Scenario, sums: dict[str, Scalar], tokens: Scalar) -> tuple[Scalar, dict[str, Scalar]]:
    """Time in s of a step under the limit of electrical power, and power of a device and energy per token in it.

    No limit and no metrics where energy, static power or the limit are unknown.
    """
    hardware, deployment, time = scenario.hardware, scenario.deployment, sums["step"]
    energy = step_joules(sums, "step")
    if energy is None:
        return time, {}
    # Ops are of all stages; one device spends 1 / pp of their energy.
    energy = energy.times(1.0 / degree(deployment.pp))
    limited = limited_time(time, energy, hardware)
    power = mean_power(time, energy, hardware)
    per_token = power * limited * replica_devices(deployment) / tokens
    return limited, {
        "power": power,
        "slowdown": limited / time,
        **clocks(hardware, {"clock": time / limited}),
        "joules_per_token": per_token,
        "tokens_per_joule": 1.0 / per_token,
    }


def _steps(scenario: Scenario) -> Steps:
    return {"step": (scenario, step_batch(scenario.workload, scenario.model))}


STEP = Job("step", StepWork, step_metrics, _steps)
