"""A dense feed-forward layer: fused up projections, activation, down projection."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from jaxroof.deployment import Deployment, axes, degree, expert_tp, product, splits_tokens, stage_devices, token_groups
from jaxroof.deployment.rule import Rule, divides, width_rule
from jaxroof.fanout import Fanout, distinct_devices
from jaxroof.layers.choices import busiest_experts, distinct_experts, own_choices
from jaxroof.layers.collective import collective
from jaxroof.layers.linear import Matrices, Matrix, elementwise, launched, projection, quantized_rows
from jaxroof.layers.popularity import Load, busiest, visited
from jaxroof.layers.protocol import FeedForwardKind, Sizes
from jaxroof.model import Experts, FeedForward
from jaxroof.numerics.smooth import ceiling, maximum
from jaxroof.numerics.struct import Scalar, given
from jaxroof.op import Kernel, Ops, ProductShape, with_role

ACTIVATION_FLOPS = 4.0
"""Vector FLOP per hidden element of SiLU or GELU times gate, beside its exponential."""


def feedforward_matrices(
    feedforward: FeedForward, hidden: Scalar, deployment: Deployment, prefix: str = ""
) -> Matrices:
    """Weight matrices of one layer on one device; its width is split over tp."""
    width = feedforward.intermediate / deployment.tp
    # Up projections are column-parallel and the down projection row-parallel: one all-reduce per layer.
    return {
        f"{prefix}up_proj": Matrix(hidden, feedforward.up_projections * width, feedforward.up, reads_norm=True),
        f"{prefix}down_proj": Matrix(width, hidden, feedforward.down, to_residual=True, target="down"),
    }


def feedforward_ops(
    feedforward: FeedForward,
    hidden: Scalar,
    deployment: Deployment,
    tokens: Scalar,
    count: Scalar,
    prefix: str = "",
) -> Ops:
    """Ops of one dense feed-forward layer in the order they run; names begin with `prefix`."""
    activation = deployment.activation_bytes
    up, down = feedforward_matrices(feedforward, hidden, deployment).values()
    width, kernels = down.inputs, 1.0 if deployment.activation_kernels is None else deployment.activation_kernels
    # Engines that split the activation into kernels write and read its width between them.
    further = (kernels - 1.0) * width
    ops = {
        **projection(
            f"{prefix}up_proj", tokens, up, activation, count, quantized_rows=quantized_rows(tokens, deployment)
        ),
        f"{prefix}activation": elementwise(
            tokens,
            reads=up.outputs + further,
            writes=width + further,
            element_bytes=activation,
            flops=ACTIVATION_FLOPS * width,
            count=count,
            kernels=kernels,
            exps=width,
        ),
        **projection(f"{prefix}down_proj", tokens, down, activation, count),
    }
    return with_role(ops, "feedforward")


def feedforward_width(feedforward: FeedForward, hidden: Scalar, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device."""
    return (feedforward.up_projections + 1.0) * feedforward.intermediate / deployment.tp


def feedforward_rules(feedforward: FeedForward, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    yield width_rule("tp", deployment.tp, "feed-forward", feedforward.intermediate)


def adapted_sizes(feedforward: FeedForward, hidden: Scalar, deployment: Deployment) -> Sizes:
    """Inputs and outputs on one device of what low-rank adapters may change."""
    width = feedforward.intermediate / deployment.tp
    return {"up": (hidden, feedforward.up_projections * width), "down": (width, hidden)}


FEED_FORWARD = FeedForwardKind(
    matrices=feedforward_matrices,
    ops=lambda layer, hidden, deployment, tokens, group_tokens, count: feedforward_ops(
        layer, hidden, deployment, tokens, count
    ),
    width=feedforward_width,
    rules=feedforward_rules,
    adapted=adapted_sizes,
)
"""What the cost model asks of a dense feed-forward."""


# A mixture-of-experts layer: router, exchange of tokens, grouped GEMMs over the experts touched, shared experts.


EXCHANGE: dict[str, Any] = {"parallelism": "ep", "role": "exchange"}
"""What the collectives are that bring tokens to their experts and results back."""


def expert_matrices(experts: Experts, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one layer on one device: 1 / ep of the experts, 1 / `expert_tp` of their width, the router."""
    # Redundant copies of popular experts take memory as experts do.
    held = stored_experts(experts, deployment) / degree(deployment.ep)
    width, inputs = experts.intermediate / expert_tp(deployment), hidden if experts.width is None else experts.width
    matrices = {
        # The router sees the hidden state and scores all experts, on every device.
        "router": Matrix(hidden, experts.experts, experts.router, reads_norm=True),
        "expert_up_proj": Matrix(inputs, experts.up_projections * width, experts.up, held, routed=True),
        "expert_down_proj": Matrix(width, inputs, experts.down, held, routed=True),
    }
    if experts.width is not None:
        weights = given(experts.projection, "weights of the projections to the experts' width")
        matrices["narrow_proj"] = Matrix(hidden, inputs, weights, reads_norm=True)
        matrices["widen_proj"] = Matrix(inputs, hidden, weights, to_residual=True)
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
    stored = stored_experts(experts, deployment)
    # Expected number of different experts: their weights are what the step reads. At few tokens this decides the time,
    # as each touched expert costs its whole matrices.
    choosing = own_choices(group_tokens, deployment.alike)
    touched = distinct_experts(stored, experts.top_k, choosing)
    load = expert_load(experts, deployment, group_tokens)
    if load.touched is not None:
        touched = stored * load.touched
    if deployment.ep is not None:
        # The device with the most tokens, or the most experts to read, ends last: all others wait for its results.
        rows = rows * load.device / deployment.ep
        if load.touched is None:
            touched = busiest_experts(experts, stored, choosing, deployment.ep)
        else:
            touched = touched / deployment.ep
    sent, returned = exchange_ops(experts, up.inputs, deployment, group_tokens, count)
    ops = with_role(projection("router", tokens, matrices["router"], activation, count), "router")
    # Scores, softmax or sigmoid, top-k and the sort of rows by expert: a few small kernels.
    ops["route"] = elementwise(
        tokens,
        reads=experts.experts,
        writes=2.0 * experts.top_k,
        element_bytes=4.0,
        flops=3.0 * experts.experts,
        count=count,
        kernels=3.0,
        exps=experts.experts,
        role="router",
    )
    if experts.width is not None:
        ops |= projection("narrow_proj", tokens, matrices["narrow_proj"], activation, count)
    ops |= sent
    # Quantisation happens once per token, before its row is copied to its experts.
    up_product = projection("expert_up_proj", rows, up, activation, count, "experts", touched, rows / experts.top_k)
    down_product = projection("expert_down_proj", rows, down, activation, count, "experts", touched)
    if deployment.popularity is not None:
        most = group_tokens * experts.top_k / experts.experts * load.expert
        up_product, down_product = with_largest(up_product, most), with_largest(down_product, most)
    ops |= up_product
    ops["expert_activation"] = elementwise(
        rows,
        reads=up.outputs,
        writes=down.inputs,
        element_bytes=activation,
        flops=ACTIVATION_FLOPS * down.inputs,
        count=count,
        exps=down.inputs,
    )
    ops |= down_product
    ops |= returned
    # Weighted sum of a token's expert outputs: top_k rows in, one out.
    ops["combine"] = elementwise(
        tokens,
        reads=experts.top_k * up.inputs,
        writes=up.inputs,
        element_bytes=activation,
        flops=2.0 * experts.top_k * up.inputs,
        count=count,
    )
    if experts.width is not None:
        ops |= projection("widen_proj", tokens, matrices["widen_proj"], activation, count)
    if experts.shared is not None:
        # Shared experts are a dense feed-forward beside the routed ones.
        ops |= feedforward_ops(experts.shared, hidden, deployment, tokens, count, prefix="shared_")
    return with_role(ops, "experts")


def exchange_ops(
    experts: Experts, width: Scalar, deployment: Deployment, group_tokens: Scalar, count: Scalar
) -> tuple[Ops, Ops]:
    """What brings tokens to their experts and results back; nothing while all devices have all tokens.

    "all_gather": every group gets all tokens, and results are summed back. Otherwise each of the stage's devices sends
    its share of all tokens to those that hold a token's experts, every one of them split over `expert_tp` devices.
    "all_to_all": once to every holder (`distinct_devices`); over nodes it may be sent once to every node that holds one
    of them, and forwarded inside (`Collective.fanout`). "forwarding": the same by an engine's own kernels, which
    `LinkEfficiency.exchange` describes. "low_latency": once per chosen expert. The busiest device gets `expert_load`
    times the mean.

    Args:
      width: elements of a token that experts read and write.

    Source: DeepEP, deepseek-ai/DeepEP, README (normal and low-latency kernels).
    """
    if not splits_tokens(deployment):
        return {}, {}
    devices, groups = stage_devices(deployment), token_groups(deployment)
    # Attention groups gather all tokens and reduce-scatter the results: simple, but each device receives tokens that it
    # has no expert of.
    if deployment.exchange == "all_gather":
        elements = group_tokens * width
        there, back, stride = deployment.dispatch_bytes, deployment.communication_bytes, deployment.tp
        gathered = collective("all_gather", elements * there, groups, count, stride, **EXCHANGE)
        summed = collective("reduce_scatter", elements * back, groups, count, stride, **EXCHANGE)
        return {"dispatch_all_gather": gathered}, {"combine_reduce_scatter": summed}
    holders, fanout = degree(deployment.ep), None
    load = expert_load(experts, deployment, group_tokens).device
    if deployment.exchange == "low_latency":
        # Low latency: one message per chosen expert, with no look at which of them share a device.
        copies, kinds = experts.top_k, ("dispatch", "combine")
    else:
        # Normal kernels: a device that holds several of a token's experts receives it once.
        copies, kinds = distinct_devices(holders, experts.experts, experts.top_k), ("all_to_all", "all_to_all")
        fanout = Fanout(
            holders=holders,
            experts=experts.experts,
            choices=experts.top_k,
            groups=experts.groups,
            reached=experts.reached_groups,
        )
        # Of the popular experts of one device a token has several more often, and goes there once.
        load = load if deployment.popularity is None else visited(load, holders, experts.top_k)
    # Without groups nothing moves. Experts that are split over `expert_tp` devices need the token on each of them.
    sent = launched(groups - 1.0) * group_tokens / devices * copies * expert_tp(deployment) * load
    there, back = (
        collective(kind, sent * row, devices, count, fanout=_of_rows(fanout, row, back, deployment), **EXCHANGE)
        for kind, row, back in (
            (kinds[0], width * deployment.dispatch_bytes, False),
            (kinds[1], width * deployment.communication_bytes, True),
        )
    )
    return {"dispatch": there}, {"return": back}


def _of_rows(fanout: Fanout | None, row: Scalar, back: bool, deployment: Deployment) -> Fanout | None:
    """The same of rows of `row` B, to experts or back, where kernels move them one by one."""
    if fanout is None or deployment.exchange != "forwarding":
        return fanout
    return dataclasses.replace(fanout, token_bytes=row, back=back)


def expert_load(experts: Experts, deployment: Deployment, group_tokens: Scalar) -> Load:
    """Rows of the busiest device and expert over the mean: `imbalance` alone, or times what `popularity` makes."""
    if deployment.popularity is None:
        return Load(deployment.imbalance, 1.0)
    load = busiest(
        deployment.popularity,
        experts.experts,
        experts.top_k,
        degree(deployment.ep),
        group_tokens,
        deployment.redundant_experts,
    )
    return load._replace(device=load.device * deployment.imbalance)


def with_largest(ops: Ops, rows: Scalar) -> Ops:
    """The same ops, whose grouped products know the rows of their busiest matrix."""
    return {
        name: dataclasses.replace(op, shape=dataclasses.replace(op.shape, largest=rows))
        if isinstance(op, Kernel) and isinstance(op.shape, ProductShape)
        else op
        for name, op in ops.items()
    }


def stored_experts(experts: Experts, deployment: Deployment) -> Scalar:
    """Experts of one layer on all devices, copies included: a token goes to one copy of each of its experts."""
    return experts.experts if deployment.redundant_experts is None else experts.experts + deployment.redundant_experts


def expert_width(experts: Experts, hidden: Scalar, deployment: Deployment) -> Scalar:
    """Elements per token between the matrices of a layer on one device: those of all experts of a token.

    Results of the second product take the place of those of the first.

    Source: vllm/model_executor/layers/fused_moe/fused_moe.py (intermediate_cache1 to 3), v0.11.
    """
    width = experts.intermediate / expert_tp(deployment)
    outputs = hidden if experts.width is None else experts.width
    # Workspace: outputs of the second product overwrite those of the first, so the wider counts, and the activation's
    # result beside it.
    return experts.top_k * (maximum(experts.up_projections * width, outputs) + width)


def padded_expert_bytes(experts: Experts, hidden: Scalar, deployment: Deployment) -> Scalar:
    """B that kernels pad a layer's experts with on one device: both sides grow to multiples of the kernel's tiles.

    Source: vllm/model_executor/layers/quantization/mxfp4.py (Marlin: hidden size to 256, expert width to 128), v0.11;
    gpt-oss-120b takes 65.97 GiB of an H100 as it does, and 60.8 in its files.
    """
    if not experts.up.padded:
        return 0.0
    matrices = expert_matrices(experts, hidden, deployment)
    held = sum(matrix.elements * matrix.weights.bytes for matrix in matrices.values() if matrix.routed)
    sides = (
        (hidden if experts.width is None else experts.width, deployment.hidden_tile),
        (experts.intermediate / expert_tp(deployment), deployment.expert_tile),
    )
    # Tile quantisation of storage: each side grows to the next multiple, the area by the product.
    grown = [ceiling(size / tile) * tile / size for size, tile in sides]
    return held * (grown[0] * grown[1] - 1.0)


def active_experts(experts: Experts, hidden: Scalar) -> tuple[Experts, Scalar]:
    """The experts that one token is routed to, and the parameters of the router for the others: it scores them all."""
    return dataclasses.replace(experts, experts=experts.top_k), hidden * (experts.experts - experts.top_k)


def expert_rules(experts: Experts, deployment: Deployment) -> Iterator[Rule]:
    """What a layer asks of a deployment."""
    ep = degree(deployment.ep)
    stored = stored_experts(experts, deployment)
    yield divides(ep, stored), lambda: f"ep = {ep:g} does not divide the {stored:g} experts"
    ways = expert_tp(deployment)
    yield width_rule(f"expert tp ({product(axes('layer'))} / ep)", ways, "expert", experts.intermediate)
    if experts.shared is not None:
        yield width_rule("tp", deployment.tp, "shared expert", experts.shared.intermediate)


EXPERTS = FeedForwardKind(
    matrices=expert_matrices,
    ops=expert_ops,
    width=expert_width,
    active=active_experts,
    rules=expert_rules,
    padded_bytes=padded_expert_bytes,
)
"""What the cost model asks of a mixture of experts."""
