"""Interfaces of mixers and feed-forwards: the functions that the file of each kind provides to the cost model.

A new kind of mixer is one file with its struct, its functions and a `MixerKind`, and one line of `registry.MIXERS`.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment
from jaxroof.deployment.rule import Rule
from jaxroof.layers.linear import Matrices, Matrix
from jaxroof.numerics.struct import Scalar
from jaxroof.op import Ops

Sizes = dict[str, tuple[Scalar, Scalar]]
"""Inputs and outputs, on one device, of the matrices that low-rank adapters may change, by `deployment.ADAPTED`."""


def _whole_context(mixer: Any, context: Scalar) -> Scalar:
    return context


def _no_rules(struct: Any, deployment: Deployment) -> Iterator[Rule]:
    return iter(())


def _no_sizes(struct: Any, hidden: Scalar, deployment: Deployment) -> Sizes:
    return {}


class MixerKind(NamedTuple):
    """Functions of one kind of mixer; each takes the mixer's struct first. All sizes are of one layer on one device."""

    matrices: Callable[[Any, Scalar, Deployment], Matrices]  # weight matrices, by the op that multiplies with them
    ops: Callable[[Any, Scalar, Deployment, Batch, Scalar, Scalar], Ops]  # in the order they run
    width: Callable[[Any, Deployment], Scalar]  # elements per token between its matrices
    token_bytes: Callable[[Any, Deployment], Scalar] | None = None  # B of cache that one token adds; None: no cache
    kept_tokens: Callable[[Any, Scalar], Scalar] = _whole_context  # of a sequence's `context`, those that stay cached
    fixed_bytes: Callable[[Any, Deployment], Scalar] | None = None  # B of a sequence however short it is; None: 0
    writes_scores: bool = False  # whether attention that is not fused writes its scores
    recurrent: bool = False  # whether it keeps a state in place of a cache
    copies: Callable[[Any, Deployment], tuple[Matrix, ...]] | None = None  # of weights, which engines keep beside them
    rules: Callable[[Any, Deployment], Iterator[Rule]] = _no_rules  # beside that tp divides the heads
    adapted: Callable[[Any, Scalar, Deployment], Sizes] = _no_sizes


class FeedForwardKind(NamedTuple):
    """Functions of one kind of feed-forward, likewise."""

    matrices: Callable[[Any, Scalar, Deployment], Matrices]
    ops: Callable[[Any, Scalar, Deployment, Scalar, Scalar, Scalar], Ops]
    width: Callable[[Any, Scalar, Deployment], Scalar]
    active: Callable[[Any, Scalar], tuple[Any, Scalar]] | None = None  # the part that one token runs; None: all of it
    rules: Callable[[Any, Deployment], Iterator[Rule]] = _no_rules
    adapted: Callable[[Any, Scalar, Deployment], Sizes] = _no_sizes
    padded_bytes: Callable[[Any, Scalar, Deployment], Scalar] | None = None  # B that kernels pad weights with; None: 0
