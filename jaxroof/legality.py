"""Whether a deployment can exist at all: which splits a model and its hardware allow, and what is worth saying."""

from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp

from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware
from jaxroof.model import Experts, Model
from jaxroof.struct import Scalar


def rules(hardware: Hardware, model: Model, deployment: Deployment) -> Iterator[tuple[jax.Array, Callable[[], str]]]:
    """Every rule of a tensor-parallel split: whether it holds, shape (), and the sentence for when it does not.

    Sentences need concrete numbers; inside `jit` only the verdicts can be used.
    """
    tp = deployment.tp
    for block in model.blocks:
        attention, feedforward = block.attention, block.feedforward
        yield (
            _divides(tp, attention.heads),
            lambda heads=attention.heads: f"tp = {tp:g} does not divide the {heads:g} attention heads",
        )
        yield (
            _divides(tp, attention.kv_heads) | _divides(attention.kv_heads, tp),
            lambda heads=attention.kv_heads: f"tp = {tp:g} neither divides nor is a multiple of the {heads:g} KV heads",
        )
        kind = "expert" if isinstance(feedforward, Experts) else "feed-forward"
        yield (
            _divides(tp, feedforward.intermediate),
            lambda kind=kind, width=feedforward.intermediate: f"tp = {tp:g} does not divide the {kind} width {width:g}",
        )
    inner, outer = hardware.links.scale_up, hardware.links.scale_out
    widest = outer or inner
    reach = 1.0 if widest is None else widest.devices
    yield (
        jnp.asarray(tp <= reach),
        lambda: f"tp = {tp:g} exceeds the {reach:g} devices that the hardware's links connect",
    )


def legal(hardware: Hardware, model: Model, deployment: Deployment) -> jax.Array:
    """True where every rule holds, shape (). Pure: an axis may run over any leaf."""
    verdict = jnp.asarray(True)
    for holds, _ in rules(hardware, model, deployment):
        verdict = verdict & holds
    return verdict


def broken_rule(hardware: Hardware, model: Model, deployment: Deployment) -> str | None:
    """The first rule that concrete structs break, as a sentence; None when all hold."""
    for holds, sentence in rules(hardware, model, deployment):
        if not bool(holds):
            return sentence()
    return None


def crosses_domain(hardware: Hardware, deployment: Deployment) -> jax.Array:
    """True where the replica is larger than its scale-up domain, so that its ring runs over the scale-out link."""
    inner = hardware.links.scale_up
    reach = 1.0 if inner is None else inner.devices
    return jnp.asarray(deployment.tp > reach)


def _divides(divisor: Scalar, number: Scalar) -> jax.Array:
    return jnp.mod(number, divisor) == 0.0
