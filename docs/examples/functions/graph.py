"""A graph network for simulation, MeshGraphNets: 15 rounds of messages along the edges of a mesh.

Source: Pfaff, Fortunato, Sanchez-Gonzalez and Battaglia, Learning Mesh-Based Simulation with Graph Networks,
arXiv:2010.03409, appendix A.1: 15 rounds, perceptrons of two hidden layers of 128 with a layer norm, sums of messages.
"""

from typing import Any

import jax
import jax.numpy as jnp

from docs.examples.functions.arrays import array, layer_norm

ROUNDS, WIDTH = 15, 128
NODE_INPUTS, EDGE_INPUTS, OUTPUTS = 12, 8, 3


def _perceptron(*inputs: int) -> list[jax.ShapeDtypeStruct]:
    """Weights of three layers; the first has the sizes of what it reads."""
    *stacked, first = inputs
    return [array(*stacked, a, b, dtype="float32") for a, b in ((first, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH))]


params = {
    "nodes": _perceptron(NODE_INPUTS),
    "edges": _perceptron(EDGE_INPUTS),
    "rounds": {"edges": _perceptron(ROUNDS, 3 * WIDTH), "nodes": _perceptron(ROUNDS, 2 * WIDTH)},
    "result": [*_perceptron(WIDTH)[:2], array(WIDTH, OUTPUTS, dtype="float32")],
}
"""Weights in float32; those of rounds are stacked."""


def perceptron(weights: list[jax.Array], x: jax.Array) -> jax.Array:
    """Three layers."""
    first, second, third = weights
    return jax.nn.relu(jax.nn.relu(x @ first) @ second) @ third


def messages(
    state: tuple[jax.Array, jax.Array], weights: dict[str, Any], senders: jax.Array, receivers: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """One round: every edge reads both its nodes, and every node the sum of its edges."""
    nodes, edges = state
    read = jnp.concatenate([edges, nodes[senders], nodes[receivers]], -1)
    edges = edges + layer_norm(perceptron(weights["edges"], read))
    received = jax.ops.segment_sum(edges, receivers, num_segments=nodes.shape[0])
    return nodes + layer_norm(perceptron(weights["nodes"], jnp.concatenate([nodes, received], -1))), edges


def forward(
    params: dict[str, Any], nodes: jax.Array, edges: jax.Array, senders: jax.Array, receivers: jax.Array
) -> jax.Array:
    """Change of every node: nodes (n, 12), edges (e, 8), and the node at both ends of every edge (e,)."""
    state = layer_norm(perceptron(params["nodes"], nodes)), layer_norm(perceptron(params["edges"], edges))

    def one(state: Any, weights: dict[str, Any]) -> tuple[Any, None]:
        return messages(state, weights, senders, receivers), None

    (found, _), _ = jax.lax.scan(one, state, params["rounds"])
    return perceptron(params["result"], found)
