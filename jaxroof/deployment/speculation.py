"""Tokens that a step of speculative decoding keeps, of a chain or a tree of drafts."""

import dataclasses
from typing import Any

from jaxroof.deployment import Deployment, drafted_part
from jaxroof.deployment.acceptance import AcceptanceTable
from jaxroof.model import Model, Prediction
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import minimum
from jaxroof.numerics.struct import Array, Scalar, number

Acceptance = Scalar | tuple[Scalar, ...]
"""Probability that a drafted token is right, given that those before it are: of all positions, or of each.

Positions beyond the last given one are never right. An `AcceptanceTable` may stand in its place; `accepted` makes
probabilities by position of it.
"""


def acceptance_number() -> Any:
    """A workload's field that holds an `Acceptance`, 0 where nothing else is said."""
    return number(
        "1",
        "probability that a drafted token is right",
        "given that those before it are",
        words="a probability: at most 1",
        zero=True,
        most=1.0,
        condition=True,
        default=0.0,
    )


MARGIN = 1e-6
"""Probabilities are taken as at least a thousandth of this and at most 1 - MARGIN, where powers have gradients."""


def accepted(acceptance: Acceptance, sequences: Scalar, context: Scalar) -> Acceptance:
    """The acceptance where so many sequences decode together, each with `context` tokens: of a table, by position."""
    return acceptance.at(sequences, context) if isinstance(acceptance, AcceptanceTable) else acceptance


def expected_tokens(deployment: Deployment, acceptance: Acceptance) -> Scalar:
    """Expected tokens that one decode step adds to a sequence, shape (), from 1 to 1 + `deployment.drafts`.

    Where drafts are looked up, 1 + m (e - 1): e of a sequence whose look-up finds some, m the share of these.
    One probability a, k drafts in a chain: (1 - a^(k + 1)) / (1 - a). Otherwise 1 + the sum over depths j = 1 ... k of
    a_1 ... a_j, where a depth of a tree is right if one of its b branches is: 1 - (1 - a)^b.

    Branches of one node are taken to be right independently of each other. Differentiable in the probabilities and,
    between whole numbers too, in `drafts`.

    Source: Leviathan, Kalman & Matias, arXiv:2211.17192, equation 1; trees: Miao et al., arXiv:2305.09781 (SpecInfer).
    """
    if deployment.drafts is None:
        return 1.0
    if deployment.drafter == "ngram" and deployment.match is not None:
        return 1.0 + deployment.match * (expected_tokens(matched(deployment), acceptance) - 1.0)
    if deployment.tree is None and not isinstance(acceptance, tuple):
        right = _inside(acceptance)
        # A geometric series, by expm1 and log, as a is often close to 1.
        return -jnp.expm1((deployment.drafts + 1.0) * jnp.log(right)) / (1.0 - right)
    # The model's own token is added in any case, so the sum over depths starts from 1.
    expected, reached = 1.0, 1.0
    for depth, right in enumerate(_by_depth(deployment.tree, acceptance)):
        # A token at depth j counts only if all before it are right: conditional probabilities multiply.
        reached = reached * right
        expected = expected + drafted_part(deployment.drafts, depth) * reached
    return expected


def chances(deployment: Deployment, acceptance: Acceptance, most: int) -> Array:
    """Probability that a draft of each position is right, given that those before it are, shape [most].

    Of a tree, that some draft of each depth is.
    """
    if deployment.tree is None and not isinstance(acceptance, tuple):
        return jnp.full(most, acceptance)
    found = _by_depth(deployment.tree, acceptance)[:most]
    return jnp.stack([*found, *[jnp.zeros_like(found[0])] * (most - len(found))])


def drafting(deployment: Deployment, drafts: float) -> Deployment:
    """The deployment in a step that drafts so many tokens for every sequence, or its own number where that is less."""
    if deployment.drafts is None:
        return deployment
    fewer = jnp.minimum(jnp.asarray(deployment.drafts, dtype=float), drafts)
    return dataclasses.replace(matched(deployment), drafts=fewer)


def matched(deployment: Deployment) -> Deployment:
    """The deployment in a step in which the look-ups of all sequences find tokens to draft."""
    return deployment if deployment.match is None else dataclasses.replace(deployment, match=None)


def drafter(model: Model, deployment: Deployment) -> Model | None:
    """The model that drafts for `model` in every step; None where there is none, or nothing is drafted."""
    return None if deployment.drafts is None or deployment.drafter == "ngram" else model.draft


def predictor(model: Model, deployment: Deployment) -> Prediction | None:
    """The prediction head of `model` that drafts in every step; None where another model or a look-up does."""
    idle = deployment.drafts is None or deployment.drafter == "ngram" or model.draft is not None
    return None if idle else model.prediction


def draft_deployment(deployment: Deployment) -> Deployment:
    """Deployment of a draft model: as the model that it drafts for, with the tokens of one of its runs.

    Drafts are the likeliest tokens, so no logits are sorted for them.
    """
    # A run on a tree's depth works on several nodes of every sequence at once, as a step that verifies drafts does.
    further = None if deployment.tree is None else draft_rows(deployment) - 1.0
    return dataclasses.replace(
        deployment, drafts=further, tree=None, stages=None, offloaded=None, adapters=None, sampler="fused"
    )


def draft_rows(deployment: Deployment) -> Scalar:
    """Tokens per sequence that one run of a draft model works on: 1 in a chain; the mean of a tree's depths."""
    if deployment.tree is None or deployment.drafts is None:
        return 1.0
    # A run at depth j works on all nodes of that depth; the mean over depths is one run's number of tokens.
    rows, width = 0.0, 1.0
    for depth, branches in enumerate(deployment.tree):
        rows = rows + drafted_part(deployment.drafts, depth) * width
        width = width * branches
    # Double `where`: without drafts the quotient would be 0 / 0, and its gradient not a number.
    some = deployment.drafts > 0.0
    return jnp.where(some, rows, 1.0) / jnp.where(some, minimum(deployment.drafts, float(len(deployment.tree))), 1.0)


def beta_acceptance(mean: Scalar, concentration: Scalar, positions: int) -> tuple[Scalar, ...]:
    """Probabilities by position where every sequence has one of its own, drawn from a beta distribution.

    With a = mean * concentration, position j is right with (a + j - 1) / (concentration + j - 1), given those before
    it: a sequence that has been right so far is one of the likelier ones. Large concentrations are the constant mean.

    Args:
      mean: of the probabilities over sequences, in (0, 1).
      concentration: sum of the distribution's two parameters, positive.
      positions: how many, at least the drafts of a step.

    Source: ours, the moments of the beta distribution, E[p^j] = product of (a + i) / (concentration + i), i < j.
    """
    # The posterior mean of a beta distribution after `position` successes in as many trials.
    return tuple((mean * concentration + position) / (concentration + position) for position in range(positions))


def _inside(probability: Scalar) -> Array:
    """`probability` inside (0, 1), where quotients and powers of it have a value and a gradient."""
    # An affine map of [0, 1] rather than a clip, whose gradient would be 0 at both ends.
    return jnp.asarray(probability * (1.0 - MARGIN) + 1e-3 * MARGIN)


def _by_depth(tree: tuple[Scalar, ...] | None, acceptance: Acceptance) -> list[Array]:
    """Probability that a depth has a right token, given that the one before has, by depth."""
    if tree is None:
        return [jnp.asarray(right) for right in acceptance]
    chances = acceptance if isinstance(acceptance, tuple) else (acceptance,) * len(tree)
    # Given in another length, a position that either does not have is not drafted or never right.
    # P(some branch is right) = 1 - (1 - a)^b.
    return [-jnp.expm1(branches * jnp.log1p(-_inside(right))) for right, branches in zip(chances, tree, strict=False)]
