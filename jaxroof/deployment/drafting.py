"""Drafts of speculative decoding: how many tokens a step verifies per sequence."""

from jaxroof.field import count
from jaxroof.smooth import minimum, positive_part
from jaxroof.struct import Scalar, struct


@struct
class Drafting:
    """Tokens that the model's prediction head or a smaller model drafts, in a chain or a tree."""

    drafts: Scalar | None = count(
        "tokens drafted per sequence and step",
        "by the model's prediction head or the --draft model; none: nothing drafts",
        zero=True,
        few=True,
        default=None,
        flag="N",
    )
    tree: tuple[Scalar, ...] | None = count(
        "branches of a drafted token at depth {}",
        "one number for every depth, where drafts are a tree: 4,2,1; none: a chain",
        words="the branches of every drafted token by depth, such as 4,2,1",
        default=None,
        flag="BRANCHES,..",
    )


def drafted_tokens(deployment: Drafting) -> Scalar:
    """Drafted tokens that a step verifies per sequence: the chain's, or all nodes of a tree."""
    if deployment.drafts is None:
        return 0.0
    if deployment.tree is None:
        return deployment.drafts
    nodes, width = 0.0, 1.0
    for depth, branches in enumerate(deployment.tree):
        width = width * branches
        nodes = nodes + drafted_part(deployment.drafts, depth) * width
    return nodes


def tokens_per_sequence(deployment: Drafting) -> Scalar:
    """Tokens of one decoding sequence in one step: the newest and the drafted ones that it verifies."""
    return 1.0 if deployment.drafts is None else 1.0 + drafted_tokens(deployment)


def drafted_part(drafts: Scalar, depth: int) -> Scalar:
    """Share of the drafts of the depth, counted from 0, that are made: 1, or 0 beyond the last."""
    return minimum(positive_part(drafts - float(depth)), 1.0)
