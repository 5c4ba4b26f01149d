"""A mixture-of-experts layer: router, exchange of tokens, grouped GEMMs over the experts touched, shared experts."""

import dataclasses
from collections.abc import Iterator

from jaxroof.arrays import jnp
from jaxroof.deployment import Deployment, degree, expert_tp, stage_devices
from jaxroof.layers.collective import collective
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.feedforward import ACTIVATION_FLOPS, feedforward_matrices, feedforward_ops
from jaxroof.layers.linear import Matrices, Matrix, launched, projection
from jaxroof.layers.protocol import FeedForwardKind
from jaxroof.model import Experts
from jaxroof.op import Ops, with_role
from jaxroof.rule import Rule, divides, width_rule
from jaxroof.struct import Array, Scalar

EXCHANGE = {"parallelism": "ep", "role": "exchange"}
"""What the collectives are that bring tokens to their experts and results back."""


def expert_matrices(experts: Experts, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device: 1 / ep of the experts, 1 / `expert_tp` of their width, the router."""
    held = experts.experts / degree(deployment.ep)
    width, inputs = experts.intermediate / expert_tp(deployment), hidden if experts.width is None else experts.width
    matrices = {
        "router": Matrix(hidden, experts.experts, experts.router, reads_norm=True),
        "expert_up_proj": Matrix(inputs, experts.up_projections * width, experts.up, held, routed=True),
        "expert_down_proj": Matrix(width, inputs, experts.down, held, routed=True),
    }
    if experts.width is not None:
        matrices["narrow_proj"] = Matrix(hidden, inputs, experts.projection, reads_norm=True)
        matrices["widen_proj"] = Matrix(inputs, hidden, experts.projection, to_residual=True)
    if experts.shared is not None:
        shared = feedforward_matrices(experts.shared, hidden, deployment, "shared_")
        matrices |= {name: matrix._replace(target=None) for name, matrix in shared.items()}  # none is adapted
    return matrices


def expert_ops(
    experts: Experts, hidden: Scalar, deployment: Deployment, tokens: Scalar, group_tokens: Scalar, count: Scalar
) -> Ops:
    """Ops of one mixture-of-experts layer in the order they run.

    Args:
      tokens: of this device's attention group.
      group_tokens: of all groups that share the experts.
    """
    activation = deployment.activation_bytes
    matrices = expert_matrices(experts, hidden, deployment)
    up, down = matrices["expert_up_proj"], matrices["expert_down_proj"]
    rows = group_tokens * experts.top_k
    touched = distinct_experts(experts.experts, experts.top_k, own_choices(group_tokens, deployment.alike))
    if deployment.ep is not None:
        rows, touched = rows * deployment.imbalance / deployment.ep, touched / deployment.ep
    sent, returned = exchange_ops(experts, up.inputs, deployment, group_tokens, count)
    ops = with_role(projection("router", tokens, matrices["router"], activation, count), "router")
    ops["route"] = elementwise(
        tokens,
        experts.experts,
        2.0 * experts.top_k,
        4.0,
        3.0 * experts.experts,
        count,
        kernels=3.0,
        exps=experts.experts,
        role="router",
    )
    if experts.width is not None:
        ops |= projection("narrow_proj", tokens, matrices["narrow_proj"], activation, count)
    ops |= sent
    ops |= projection("expert_up_proj", rows, up, activation, count, "experts", touched, rows / experts.top_k)
    ops["expert_activation"] = elementwise(
        rows, up.outputs, down.inputs, activation, ACTIVATION_FLOPS * down.inputs, count, exps=down.inputs
    )
    ops |= projection("expert_down_proj", rows, down, activation, count, "experts", touched)
    ops |= returned
    ops["combine"] = elementwise(
        tokens, experts.top_k * up.inputs, up.inputs, activation, 2.0 * experts.top_k * up.inputs, count
    )
    if experts.width is not None:
        ops |= projection("widen_proj", tokens, matrices["widen_proj"], activation, count)
    if experts.shared is not None:
        ops |= feedforward_ops(experts.shared, hidden, deployment, tokens, count, prefix="shared_")
    return with_role(ops, "experts")


def exchange_ops(
    experts: Experts, width: Scalar, deployment: Deployment, group_tokens: Scalar, count: Scalar
) -> tuple[Ops, Ops]:
    """What brings tokens to their experts and results back; nothing while all devices have all tokens.

    "all_gather": every group gets all tokens, and results are summed back. Otherwise each of the stage's devices sends
    its share of all tokens to those that hold a token's experts, every one of them split over `expert_tp` devices.
    "all_to_all": once to every holder (`distinct_devices`). "low_latency": once per chosen expert. The busiest device
    sends `imbalance` times the mean.

    Args:
      width: elements of a token that experts read and write.

    Source: DeepEP, deepseek-ai/DeepEP, README (normal and low-latency kernels).
    """
    if deployment.attention_dp is None and deployment.cp is None:
        return {}, {}
    devices, groups = stage_devices(deployment), degree(deployment.attention_dp) * degree(deployment.cp)
    if deployment.exchange == "all_gather":
        elements = group_tokens * width
        there, back, stride = deployment.dispatch_bytes, deployment.communication_bytes, deployment.tp
        gathered = collective("all_gather", elements * there, groups, count, stride, **EXCHANGE)
        summed = collective("reduce_scatter", elements * back, groups, count, stride, **EXCHANGE)
        return {"dispatch_all_gather": gathered}, {"combine_reduce_scatter": summed}
    if deployment.exchange == "low_latency":
        copies, kinds = experts.top_k, ("dispatch", "combine")
    else:
        copies, kinds = (
            distinct_devices(degree(deployment.ep), experts.experts, experts.top_k),
            ("all_to_all", "all_to_all"),
        )
    sent = launched(groups - 1.0) * group_tokens / devices * copies * expert_tp(deployment) * deployment.imbalance
    there = collective(kinds[0], sent * width * deployment.dispatch_bytes, devices, count, **EXCHANGE)
    back = collective(kinds[1], sent * width * deployment.communication_bytes, devices, count, **EXCHANGE)
    return {"dispatch": there}, {"return": back}


def distinct_devices(devices: Scalar, experts: Scalar, top_k: Scalar) -> Array:
    """Expected number of `devices` that hold at least one of a token's `top_k` different experts, shape ().

    p (1 - (1 - b / (E - (a - 1) / 2))^a), with a the smaller and b the larger of k and E / p, the experts of a device:
    p (1 - C(E - E / p, k) / C(E, k)), whose a factors 1 - b / E, 1 - b / (E - 1), ... are replaced by their middle one.
    Exact for a = 1, else within 2 %.

    Source: the hypergeometric distribution: a router's k choices are different experts.
    """
    own = experts / devices
    fewer, more = jnp.minimum(top_k, own), jnp.maximum(top_k, own)
    share = more / (experts - 0.5 * (fewer - 1.0))
    missed = jnp.log1p(-jnp.minimum(share, 1.0 - 1e-6))
    return -devices * jnp.expm1(fewer * missed)


def own_choices(tokens: Scalar, alike: Scalar) -> Array:
    """Tokens that touch as many experts, each choosing on its own, as `tokens` similar ones do: n^alike, shape ().

    Tokens of like texts prefer the same experts, so that distinct ones grow with a power of the tokens. Below one
    token nothing is shared.

    Source: Heaps, Information Retrieval, 1978, section 7.5 (distinct words of a text); popularity of experts is as
    uneven as of words: Jiang et al., arXiv:2401.04088, section 5.
    """
    return tokens * jnp.maximum(tokens, 1.0) ** (alike - 1.0)


def distinct_experts(experts: Scalar, top_k: Scalar, tokens: Scalar) -> Array:
    """Expected number of experts that at least one of `tokens` tokens is routed to, shape ().

    E (1 - (1 - k/E)^tokens), for routers that pick k of E without preference.

    Source: linearity of expectation; as in BLIS's and aiconfigurator's decode bandwidth terms.
    """
    missed = jnp.log1p(-jnp.minimum(top_k / experts, 1.0 - 1e-6))
    return -experts * jnp.expm1(tokens * missed)


def expert_width(experts: Experts, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device: those of all experts of a token."""
    return experts.top_k * (experts.up_projections + 1.0) * experts.intermediate / deployment.tp


def active_experts(experts: Experts, hidden: Scalar) -> tuple[Experts, Scalar]:
    """The experts that one token is routed to, and the parameters of the router for the others: it scores them all."""
    return dataclasses.replace(experts, experts=experts.top_k), hidden * (experts.experts - experts.top_k)


def expert_rules(experts: Experts, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    ep = degree(deployment.ep)
    yield divides(ep, experts.experts), lambda: f"ep = {ep:g} does not divide the {experts.experts:g} experts"
    ways = expert_tp(deployment)
    yield width_rule("expert tp (tp x cp x attention_dp / ep)", ways, "expert", experts.intermediate)
    if experts.shared is not None:
        yield width_rule("tp", deployment.tp, "shared expert", experts.shared.intermediate)


EXPERTS = FeedForwardKind(
    matrices=expert_matrices,
    ops=expert_ops,
    width=expert_width,
    active=active_experts,
    rules=expert_rules,
)
"""What the cost model asks of a mixture of experts."""
