"""A mixture-of-experts layer: router, dispatch, grouped GEMMs over the experts touched, combine, shared experts."""

import jax
import jax.numpy as jnp

from jaxroof.deployment import Deployment
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.feedforward import ACTIVATION_FLOPS, feedforward_ops
from jaxroof.layers.linear import linear
from jaxroof.model import Experts, WeightFormat
from jaxroof.op import Op
from jaxroof.struct import Scalar


def expert_ops(
    experts: Experts, hidden: Scalar, deployment: Deployment, tokens: Scalar, count: Scalar
) -> dict[str, Op]:
    """Ops of one mixture-of-experts layer in the order they run; every expert's width is split over tp."""
    activation = deployment.activation_bytes
    width = experts.intermediate / deployment.tp
    fused = experts.up_projections * width
    rows = tokens * experts.top_k
    touched = distinct_experts(experts.experts, experts.top_k, tokens)
    ops = {
        "router": linear(tokens, hidden, experts.experts, experts.router, activation, count),
        "route": elementwise(
            tokens,
            experts.experts,
            2.0 * experts.top_k,
            4.0,
            3.0 * experts.experts,
            count,
            kernels=3.0,
            exps=experts.experts,
        ),
        "expert_up_proj": grouped_linear(rows, touched, hidden, fused, experts.up, activation, count),
        "expert_activation": elementwise(rows, fused, width, activation, ACTIVATION_FLOPS * width, count, exps=width),
        "expert_down_proj": grouped_linear(rows, touched, width, hidden, experts.down, activation, count),
        "combine": elementwise(tokens, experts.top_k * hidden, hidden, activation, 2.0 * experts.top_k * hidden, count),
    }
    if experts.shared is not None:
        ops |= feedforward_ops(experts.shared, hidden, deployment, tokens, count, prefix="shared_")
    return ops


def grouped_linear(
    rows: Scalar,
    groups: Scalar,
    inputs: Scalar,
    outputs: Scalar,
    weights: WeightFormat,
    activation_bytes: Scalar,
    count: Scalar,
) -> Op:
    """One GEMM per expert in one kernel: `rows` rows spread over the weights of `groups` experts.

    Re-reads follow from the rows of all experts together, as if tiles could span experts; a kernel model refines it.
    """
    return linear(rows, inputs, outputs, weights, activation_bytes, count, kind="experts", matrices=groups)


def distinct_experts(experts: Scalar, top_k: Scalar, tokens: Scalar) -> jax.Array:
    """Expected number of experts that at least one of `tokens` tokens is routed to, shape ().

    E (1 - (1 - k/E)^tokens), for routers that pick k of E without preference.

    Source: linearity of expectation; as in BLIS's and aiconfigurator's decode bandwidth terms.
    """
    missed = jnp.log1p(-jnp.minimum(top_k / experts, 1.0 - 1e-6))
    return -experts * jnp.expm1(tokens * missed)
