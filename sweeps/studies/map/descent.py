"""Mappings by gradients: factors relaxed to fractions, descended from many starts, and rounded to factors that fit."""

import math
from typing import Any

import numpy as np

from jaxroof.nests import Mapping, NestFanout, nest_cost
from jaxroof.nests.counts import inner_extents, words
from jaxroof.numerics.arrays import jax, jnp
from jaxroof.numerics.struct import Scalar
from sweeps.studies.map.space import NestSpace, Orders

STARTS, STEPS = 64, 120
"""Descents side by side, and steps of each."""

RATE = 0.03
"""Of Adam's steps in logarithms of shares; ours: of 0.02, 0.03, 0.05, 0.08, 0.15 and 0.5 the one whose rounded ends
need the least energy in total for conv2_3x3 and conv4_3x3 of ResNet-50 and conv2 of AlexNet on `eyeriss_like`."""

PENALTY = 10.0
"""Weight of the logarithm by which a tile or a fan-out is too large."""

NEAREST = 12
"""Whole factors that are tried for each dimension: those nearest to the fractions."""


def descended(space: NestSpace, orders: Orders, objective: str, random: np.random.Generator) -> np.ndarray:
    """Whole factors near the ends of all descents in one loop order, those that fit: [mappings, dimensions, nodes].

    A dimension of size n has the factors n^share over the nodes that it may be split over; shares are a softmax.
    """
    # The factors n^share of a dimension multiply to n while the shares sum to 1.
    logs = [math.log(space.problem.sizes[name]) for name in space.dimensions]

    def factors(free: list[Any]) -> list[Any]:
        # Nodes over which a dimension may not be split get a logit of -30: a share of about exp(-30), which is nothing.
        shares = [jax.nn.softmax(jnp.where(mask, each, -30.0)) for mask, each in zip(space.varies, free, strict=True)]
        return [jnp.exp(log * share) for log, share in zip(logs, shares, strict=True)]

    def loss(free: list[Any]) -> Scalar:
        mapping = space.split(factors(free), orders)
        cost = nest_cost(space.problem, space.machine, mapping)
        # The logarithm makes the size of steps independent of the objective's unit.
        return jnp.log(getattr(cost, objective)) + PENALTY * _excess(space, mapping)

    def step(state: Any, number: Any) -> Any:
        free, mean, spread = state
        # Adam (Kingma and Ba, arXiv:1412.6980), with decay rates of 0.9 for slopes and 0.99 for their squares.
        slopes = jax.grad(loss)(free)
        mean = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, mean, slopes)
        spread = jax.tree.map(lambda old, new: 0.99 * old + 0.01 * new * new, spread, slopes)
        # Both means start at 0: these corrections remove the bias of the first steps.
        early, late = 1.0 - 0.9 ** (number + 1.0), 1.0 - 0.99 ** (number + 1.0)
        move = jax.tree.map(lambda one, two: RATE * (one / early) / (jnp.sqrt(two / late) + 1e-8), mean, spread)
        return (jax.tree.map(jnp.subtract, free, move), mean, spread), None

    def descent(free: list[Any]) -> list[Any]:
        still = jax.tree.map(jnp.zeros_like, free)
        (free, _, _), _ = jax.lax.scan(step, (free, still, still), jnp.arange(STEPS, dtype=jnp.float32))
        return factors(free)

    nodes = len(space.machine.nodes)
    starts = [jnp.asarray(random.normal(size=(STARTS, nodes)), jnp.float32) for _ in space.dimensions]
    # Starts, a list of [starts, nodes] by dimension, descend side by side in one compiled program.
    ends = jax.jit(jax.vmap(descent))(starts)
    return _rounded(space, [np.asarray(each) for each in ends], random)


def _excess(space: NestSpace, mapping: Mapping) -> Scalar:
    """Sum of logarithms by which fan-outs and memories are too small."""
    over, extents = 0.0, inner_extents(mapping)
    for place, node in enumerate(space.machine.nodes):
        if isinstance(node, NestFanout):
            used, room = math.prod(mapping.factors[place].values()), node.size
        elif node.capacity < math.inf:
            used = sum(words(space.problem.tensors[name], extents[place]) for name in space.kept[place])
            room = node.capacity
        else:
            continue
        over = over + jnp.maximum(jnp.log(used / room), 0.0)
    return over


def _rounded(space: NestSpace, ends: list[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """For each end some combinations of whole factors near it, those that fit."""
    near = []
    for end, options in zip(ends, space.options, strict=True):
        # Squared distances of logarithms from each end to each option, [starts, options].
        distance = ((np.log(end)[:, None] - np.log(options)[None]) ** 2).sum(-1)
        near.append(options[np.argsort(distance, axis=1)[:, :NEAREST]])
    rows = []
    for number in range(STARTS):
        # First the nearest factors of every dimension together.
        rows.append(np.stack([each[number, 0] for each in near])[None])
        # Then 200 combinations, each the k-th nearest factors, k = 0, 1, ..., with a probability of 0.4 * 0.6^k.
        picks = [random.geometric(0.4, size=200) - 1 for _ in near]
        rows.append(
            np.stack(
                [each[number, np.minimum(pick, each.shape[1] - 1)] for each, pick in zip(near, picks, strict=True)], 1
            )
        )
    factors = np.unique(np.concatenate(rows).astype(np.float32), axis=0)
    # Rounding can break the limits that the penalty kept: only the combinations that fit are returned.
    return factors[space.fits(factors, complete=True)]
