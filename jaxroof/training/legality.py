"""Whether a training run can be laid out so: micro-batches, stages, chunks and devices that add up."""

from collections.abc import Iterator

import jax
import jax.numpy as jnp

from jaxroof.deployment import Deployment, degree, devices
from jaxroof.hardware import Hardware
from jaxroof.memory import layer_count
from jaxroof.model import Model
from jaxroof.rule import Rule
from jaxroof.training.schedules import SCHEDULES, schedule_legal
from jaxroof.training.training import Training, groups, micro_batches


def training_rules(hardware: Hardware, model: Model, deployment: Deployment, training: Training) -> Iterator[Rule]:
    """Every rule that training adds to those of the deployment (`jaxroof.legality.rules`)."""
    number, pp, chunks = micro_batches(training, deployment), degree(deployment.pp), training.virtual_stages
    share = groups(deployment)
    yield (
        jnp.asarray((jnp.mod(number, 1.0) == 0.0) & (number >= 1.0)),
        lambda: (
            f"global_batch = {training.global_batch:g} is no multiple of micro_batch x dp x attention_dp "
            f"= {training.micro_batch:g} x {share:g}"
        ),
    )
    yield (
        jnp.asarray((jnp.mod(training.zero, 1.0) == 0.0) & (training.zero <= 3.0)),
        lambda: f"zero = {training.zero:g} must be 0, 1, 2 or 3",
    )
    cp = degree(deployment.cp)
    yield (
        jnp.asarray(jnp.mod(training.seq, cp) == 0.0),
        lambda: f"cp = {cp:g} does not divide the sequences of {training.seq:g} tokens",
    )
    yield (
        schedule_legal(training.schedule, pp, chunks, number),
        lambda: (
            f"schedule = {SCHEDULES[int(training.schedule)]} does not run {number:g} micro-batches on pp = {pp:g} "
            f"stages of {chunks:g} chunks: interleaved takes pp > 1 and a multiple of pp micro-batches, dualpipe an "
            "even pp and an even number of at least 2 pp, and the others 1 chunk"
        ),
    )
    layers = layer_count(model)
    yield (
        jnp.asarray(pp * chunks <= layers),
        lambda: f"pp x virtual_stages = {pp * chunks:g} chunks exceed the {layers:g} layers",
    )
    if deployment.sequence_parallel:
        yield (
            jnp.asarray(jnp.mod(training.seq, cp * deployment.tp) == 0.0),
            lambda: f"sequence parallelism: tp x cp = {cp * deployment.tp:g} does not divide {training.seq:g} tokens",
        )
    links, used = hardware.links, devices(deployment)
    widest = next((link for link in (links.cluster, links.scale_out, links.scale_up) if link is not None), None)
    reach = 1.0 if widest is None else widest.devices
    yield (
        jnp.asarray(used <= reach),
        lambda: f"{used:g} devices exceed the {reach:g} that the hardware's links connect",
    )


def training_legal(hardware: Hardware, model: Model, deployment: Deployment, training: Training) -> jax.Array:
    """True where every rule of training holds, shape (). Pure: an axis may run over any leaf."""
    verdict = jnp.asarray(True)
    for holds, _ in training_rules(hardware, model, deployment, training):
        verdict = verdict & holds
    return verdict


def broken_training_rule(hardware: Hardware, model: Model, deployment: Deployment, training: Training) -> str | None:
    """The first rule of training that concrete structs break, as a sentence; None when all hold."""
    for holds, sentence in training_rules(hardware, model, deployment, training):
        if not bool(holds):
            return sentence()
    return None
