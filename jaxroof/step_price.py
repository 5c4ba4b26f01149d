"""Price of one engine's step from that of a micro-batch: pipeline stages, electrical power, drafted tokens."""

import functools
from collections.abc import Callable

from jaxroof.arrays import jnp
from jaxroof.batch import Batch, Prefill, divided
from jaxroof.deployment import Deployment, degree, drafted_tokens, largest_stage, pipelined_parts
from jaxroof.energy import Joules
from jaxroof.governor import PowerLimit, limited_energy, power_limit, time_within
from jaxroof.hardware import Hardware
from jaxroof.memory import layer_count
from jaxroof.model import Model
from jaxroof.smooth import maximum, minimum
from jaxroof.speculation import expected_tokens
from jaxroof.struct import Array, Scalar

MicroBatch = Callable[[Batch, Scalar], tuple[Array, Array]]
"""Cost of a micro-batch in all stages, shape [..., quantities], and s of its host: of a batch and rows of its GEMMs."""

Price = Callable[[Batch, Scalar], tuple[Array, Array]]
"""Time in s of a step on the device, and what its host adds, of a batch and the rows of its GEMMs."""


def step_price(
    micro_batch: MicroBatch,
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    acceptance: Scalar = 0.0,
) -> Price:
    """The function that prices a whole step, which takes the sum of both times.

    With pipeline stages as many micro-batches as stages are under way, or one per sequence where these are fewer, and
    a step is the time from one step of a micro-batch to its next. The time is the one under the limit of electrical
    power: `limited_time`. With drafted tokens a step adds one token to every sequence, as without them, and takes its
    share of a step that adds several: `_share_of_drafting_step`.

    Args:
      micro_batch: its cost, for example from tables (`jaxroof.prices`).
      overlap: s of the host per step of a micro-batch, whatever is in it, and 1 where its work for every sequence runs
        beside the device, 0 where after it: `visible_host_time`.
      acceptance: probability that a drafted token is right, given that those before it are.
    """
    price = functools.partial(_step_price, micro_batch, power_limit(hardware), model, deployment, overlap)
    return _of_one_token(price, deployment, acceptance)


def step_energy(
    micro_batch: MicroBatch,
    hardware: Hardware,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    acceptance: Scalar = 0.0,
) -> Price:
    """The function that gives a step's energy in J on one device beside static power, and 0; arguments as `step_price`.

    Under the limit of electrical power: `jaxroof.governor.limited_energy`. Needs hardware of which `power_known`.
    """

    def energy(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        device, visible, spent = _unlimited(micro_batch, model, deployment, overlap, batch, rows)
        joules = limited_energy(device + visible, _joules(spent), hardware)
        return joules, jnp.zeros_like(joules)

    return _of_one_token(energy, deployment, acceptance)


def _of_one_token(price: Price, deployment: Deployment, acceptance: Scalar) -> Price:
    """The price of a step that adds one token to every sequence, where a step with drafts adds several."""
    if deployment.drafts is None:
        return price
    kept = expected_tokens(deployment, acceptance)
    return functools.partial(_share_of_drafting_step, price, drafted_tokens(deployment), kept)


def _share_of_drafting_step(
    price: Price, drafted: Scalar, kept: Scalar, batch: Batch, rows: Scalar
) -> tuple[Array, Array]:
    """Time in s that one token of every sequence and all prompt tokens of a step take, on the device and its host.

    A step with `drafted` tokens per sequence adds `kept` to each on average: one of them takes 1 / kept of the step's
    time without its prompts, and the prompts what they add to it. Exact in the mean over many steps; that tokens come
    several at a time, and to each sequence in its own number, is left out.

    Source: ours.
    """
    decoding = batch.decode
    nothing = jnp.zeros_like(decoding.sequences)
    further = drafted * decoding.sequences
    alone = Batch(
        prefill=Prefill(sequences=nothing, tokens=nothing, past=nothing), decode=decoding, logits=decoding.sequences
    )
    whole, without = price(batch, rows + further), price(alone, decoding.sequences + further)
    spared = jnp.where(decoding.sequences > 0, 1.0 - 1.0 / kept, 0.0)
    device, host = (time - spared * other for time, other in zip(whole, without, strict=True))
    return device, host


def _step_price(
    micro_batch: MicroBatch,
    limit: PowerLimit | None,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    batch: Batch,
    rows: Scalar,
) -> tuple[Array, Array]:
    """Time in s of a step of all micro-batches on the device, under the limit of its power, and what the host adds."""
    device, visible, spent = _unlimited(micro_batch, model, deployment, overlap, batch, rows)
    if limit is None:
        return device, visible
    return time_within(limit, device + visible, _joules(spent)) - visible, visible


def _unlimited(
    micro_batch: MicroBatch,
    model: Model,
    deployment: Deployment,
    overlap: tuple[Scalar, Scalar],
    batch: Batch,
    rows: Scalar,
) -> tuple[Array, Array, Array]:
    """Time in s of a step of all micro-batches at full clock, what the host adds, and one device's other quantities."""
    per_step, hidden_host = overlap
    if deployment.pp is None:
        spent, host = micro_batch(batch, rows)
        device, each = spent[..., 0], 1.0
    else:
        parts = pipelined_parts(deployment, maximum(batch.prefill.sequences + batch.decode.sequences, 1.0))
        spent, host = micro_batch(divided(batch, parts), rows / parts)
        laps = maximum(parts * largest_stage(deployment, layer_count(model)), 1.0)
        device, host, per_step = spent[..., 0] * laps, host * laps, per_step * laps
        each = jnp.asarray(parts / degree(deployment.pp))[..., None]
    visible = visible_host_time(device, per_step, host - per_step, hidden_host)
    return device, visible, spent[..., 1:] * each


def _joules(spent: Array) -> Joules:
    """Energy of a step from the quantities beside its time."""
    return Joules(spent[..., 0], spent[..., 1])


def visible_host_time(device: Scalar, per_step: Scalar, of_sequences: Scalar, hidden_host: Scalar) -> Array:
    """Time in s that the host adds to a step of `device` s, shape ().

    visible = per_step + of_sequences - hidden_host min(of_sequences, device)

    Engines that overlap sample, detokenise and schedule for the sequences of one step while the device works on the
    next: a step takes per_step + max(device, of_sequences). What is done once per step, such as launching it and
    reading its tokens, stays between two steps.

    Args:
      device: s of the kernels.
      per_step: s of the host whatever is in the step.
      of_sequences: s of the host for all sequences that sample a token.
      hidden_host: 1: overlapped; 0: one after the other.

    Source: TensorRT-LLM's overlap scheduler (nvidia.github.io/TensorRT-LLM/features/overlap-scheduler.html) and vLLM's
    asynchronous scheduling; that per_step stays visible is ours, from measured steps.
    """
    return jnp.asarray(per_step + of_sequences - hidden_host * minimum(of_sequences, device), dtype=float)
