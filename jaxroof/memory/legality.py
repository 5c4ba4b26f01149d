"""Legality of a deployment: the splits that a model and its hardware allow, and remarks on legal ones."""

import functools
from collections.abc import Callable, Iterable, Iterator

from jaxroof.deployment import (
    DEGREES,
    Deployment,
    axes,
    degree,
    product,
    replica_devices,
    request_groups,
    splits_requests,
    stage_devices,
)
from jaxroof.deployment.rule import Rule, divides
from jaxroof.deployment.speculation import drafter, predictor
from jaxroof.hardware import Hardware
from jaxroof.layers.attention import Attention
from jaxroof.layers.block import cross_attention_rules
from jaxroof.layers.registry import feed_forward_kind, mixer_kind
from jaxroof.memory.capacity import layer_count
from jaxroof.model import Block, Mixer, Model, has_experts
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.struct import Array


def rules(hardware: Hardware, model: Model, deployment: Deployment) -> Iterator[Rule]:
    """Every rule that a deployment has to keep.

    Sentences need concrete numbers; inside `jit` only the verdicts can be used.
    """
    for name in DEGREES:
        value = degree(getattr(deployment, name))
        # Verdicts are arrays, as degrees are swept; sentences are made only where a verdict failed and numbers are
        # concrete.
        yield (
            jnp.asarray(jnp.mod(value, 1.0) == 0.0) & (value >= 1.0),
            functools.partial("{} = {:g} must be a whole number of at least 1".format, name, value),
        )
    blocks = list(model.blocks)
    draft = drafter(model, deployment)
    if draft is not None:
        blocks += draft.blocks
        yield from _draft_rules(draft, deployment)
    elif (head := predictor(model, deployment)) is not None:
        blocks.append(head.block)
    # Each kind of layer knows what it asks of tensor and expert parallelism: no list of kinds here.
    for block in blocks:
        yield from _block_rules(block, deployment)
    yield from _group_rules(model, deployment)
    yield from _stage_rules(model, deployment)
    yield from _link_rules(hardware, deployment)


def _block_rules(block: Block, deployment: Deployment) -> Iterator[Rule]:
    """Rules of one layer: each kind of mixer and of feed-forward has its own."""
    mixer, cross, layer = block.attention, block.cross, block.feedforward
    if mixer is not None:
        yield _heads_rule(mixer, deployment)
        yield from mixer_kind(mixer).rules(mixer, deployment)
    if isinstance(cross, Attention):
        yield _heads_rule(cross, deployment)
        yield from cross_attention_rules(cross, deployment)
    if layer is not None:
        yield from feed_forward_kind(layer).rules(layer, deployment)


def _heads_rule(mixer: Mixer, deployment: Deployment) -> Rule:
    tp, heads = deployment.tp, mixer.heads
    return divides(tp, heads), lambda: f"tp = {tp:g} does not divide the {heads:g} attention heads"


def _group_rules(model: Model, deployment: Deployment) -> Iterator[Rule]:
    """Rules of the devices that share experts."""
    mixture = has_experts(model)
    stage = stage_devices(deployment)
    if deployment.ep is not None:
        yield (
            divides(deployment.ep, stage),
            lambda: f"ep = {deployment.ep:g} does not divide {product(axes('layer'))} = {stage:g} devices",
        )
        if not mixture:
            yield deployment.ep <= 1.0, lambda: f"ep = {deployment.ep:g}, but the model has no experts"
    # Data-parallel attention exists to share experts between groups; for a dense model plain replicas are the same and
    # simpler.
    if splits_requests(deployment) and not mixture:
        groups = request_groups(deployment)
        yield groups <= 1.0, lambda: f"attention_dp = {groups:g}, but the model has no experts to share: use dp"
    looks_up = deployment.drafter == "ngram"
    if deployment.drafts is not None and not looks_up and model.prediction is None and model.draft is None:
        yield (
            deployment.drafts <= 0.0,
            lambda: (
                f"drafts = {deployment.drafts:g}, but the model has no multi-token-prediction head and no draft model: "
                "name a draft model, or let drafter be ngram"
            ),
        )
    if deployment.offloaded is not None:
        yield (
            jnp.asarray(deployment.offloaded < 1.0),
            lambda: f"offloaded = {deployment.offloaded:g} leaves no cache on the device: below 1",
        )
    if deployment.tree is not None:
        yield (
            jnp.asarray(drafter(model, deployment) is not None),
            lambda: "a tree needs a draft model, and drafts: how many depths of it are drafted",
        )
    if deployment.overlap == "two_batch":
        yield (
            deployment.reserved_cores < 1.0,
            lambda: f"reserved_cores = {deployment.reserved_cores:g} leaves no core to compute",
        )


def _draft_rules(draft: Model, deployment: Deployment) -> Iterator[Rule]:
    """Rules of a draft model that is spread as the model is."""
    layers = layer_count(draft)
    if deployment.pp is not None:
        yield (
            jnp.asarray(deployment.pp <= layers),
            lambda: f"pp = {deployment.pp:g} exceeds the {layers:g} layers of the draft model",
        )
    if deployment.tree is not None and deployment.drafts is not None:
        depths = len(deployment.tree)
        yield (
            jnp.asarray(deployment.drafts <= float(depths)),
            lambda: f"drafts = {deployment.drafts:g} exceeds the {depths} depths of the tree",
        )


def _stage_rules(model: Model, deployment: Deployment) -> Iterator[Rule]:
    """Rules of pipeline stages."""
    layers, stages = layer_count(model), deployment.stages
    if deployment.pp is not None:
        yield (
            jnp.asarray(deployment.pp <= layers),
            lambda: f"pp = {deployment.pp:g} exceeds the {layers:g} layers",
        )
    if stages is None:
        return
    pp = degree(deployment.pp)
    yield (
        # Uneven stages are structure: their number and sum must match what is swept.
        jnp.asarray(pp == float(len(stages))),
        lambda: f"stages gives the layers of {len(stages)} pipeline stages, but pp = {pp:g}",
    )
    yield (
        jnp.asarray(sum(stages) == layers),
        lambda: f"stages adds up to {sum(stages):g} layers, but the model has {layers:g}",
    )


def _link_rules(hardware: Hardware, deployment: Deployment) -> Iterator[Rule]:
    links, used = hardware.links, replica_devices(deployment)
    widest = next((link for link in (links.cluster, links.scale_out, links.scale_up) if link is not None), None)
    # The outermost tier bounds the size of a replica, as it is the last that can connect its devices.
    reach = 1.0 if widest is None else widest.devices
    words = "tp" if _only_tp(deployment) else product(axes("replica"))
    yield (
        jnp.asarray(used <= reach),
        lambda: f"{words} = {used:g} exceeds the {reach:g} devices that the hardware's links connect",
    )


def _only_tp(deployment: Deployment) -> bool:
    return all(getattr(deployment, name) is None for name in axes("replica") if name != "tp")


def legal(hardware: Hardware, model: Model, deployment: Deployment) -> Array:
    """True where every rule of a deployment holds, shape (). Pure: an axis may run over any leaf."""
    return holds(rules(hardware, model, deployment))


def broken_rule(hardware: Hardware, model: Model, deployment: Deployment) -> str | None:
    """The first rule of a deployment that concrete structs break, as a sentence; None when all hold."""
    return first_broken(rules(hardware, model, deployment))


def holds(found: Iterable[Rule]) -> Array:
    """True where every one of the rules holds, shape ()."""
    verdict = jnp.asarray(True)
    for held, _ in found:
        verdict = verdict & held
    # No early exit: inside `jit` all verdicts are computed and combined.
    return verdict


def first_broken(found: Iterable[Rule]) -> str | None:
    """The sentence of the first rule that does not hold; None when all hold. For concrete numbers."""
    return next((sentence() for held, sentence in found if not bool(held)), None)


def told_of(what: str, found: Iterable[Rule]) -> Iterator[Rule]:
    """The rules of one part of a scenario, with its name before each sentence."""
    for held, sentence in found:
        yield held, functools.partial(_told, what, sentence)


def _told(what: str, sentence: Callable[[], str]) -> str:
    return f"{what}: {sentence()}"


def crosses_domain(hardware: Hardware, deployment: Deployment) -> Array:
    """True where a replica is larger than its scale-up domain, so that some collectives run over other links."""
    inner = hardware.links.scale_up
    reach = 1.0 if inner is None else inner.devices
    # A replica inside one scale-up domain never uses the slower links between domains.
    return jnp.asarray(replica_devices(deployment) > reach)
