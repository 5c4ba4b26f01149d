"""Spread of a model over devices: the mesh of parallel degrees, pipeline stages, and how evenly experts are used."""

import dataclasses
import functools
import operator
from typing import Any, NamedTuple, TypeVar

from jaxroof.numerics.smooth import ceiling, maximum, minimum
from jaxroof.numerics.struct import Scalar, count, declarations, number, share, struct


@struct
class Parallelism:
    """Ways that a model is split. A degree that is None is 1, and adds no kernels to a step.

    Devices of a replica are numbered with tp fastest, then cp, attention_dp and pp, and fill one tier of links after
    the other. Experts are spread over the tp x cp x attention_dp devices of a stage: `ep` ways by expert, the rest of
    the way by width.
    """

    tp: Scalar = count(
        "tensor-parallel degree", "heads and widths of a layer are split", few=True, default=1.0, flag="N"
    )
    pp: Scalar | None = count(
        "pipeline-parallel degree", "stages of consecutive layers", few=True, default=None, flag="N"
    )
    cp: Scalar | None = count(
        "context-parallel degree", "tokens of one prompt and its cache are split", few=True, default=None, flag="N"
    )
    attention_dp: Scalar | None = count(
        "attention data-parallel degree", "groups of requests that share experts", few=True, default=None, flag="N"
    )
    ep: Scalar | None = count(
        "expert-parallel degree", "of the tp x cp x attention-dp devices", few=True, default=None, flag="N"
    )
    redundant_experts: Scalar | None = count(
        "copies of popular experts",
        "beside the experts themselves, over all of a layer's devices",
        zero=True,
        default=None,
        flag="N",
    )
    dp: Scalar = count("replicas", "independent; a workload's batch is that of one", few=True, default=1.0, flag="N")
    stages: tuple[Scalar, ...] | None = count(
        "layers of pipeline stage {}",
        "one number for every stage, where they are not even",
        words="the layers of every stage, such as 20,20,21",
        few=True,
        default=None,
        flag="LAYERS,..",
    )
    imbalance: Scalar = number(
        "1",
        "rows of the busiest expert-parallel device over the mean",
        words="at least 1: the busiest device over the mean of all",
        least=1.0,
        default=1.0,
        source="ours: routing is even",
        flag="RATIO",
    )
    popularity: Scalar | None = number(
        "1",
        "exponent of the experts' popularity",
        "loads of experts follow a power law; with redundant experts, 0 or more, they are placed by load; none: all"
        " experts are equally popular",
        zero=True,
        most=2.0,
        words="from 0 to 2: the exponent of a power law",
        default=None,
        flag="EXPONENT",
    )
    charged: Scalar | None = number(
        "1",
        "devices that a replica is charged for",
        "its part of whole servers; none: those that it uses",
        default=None,
    )
    alike: Scalar = share(
        "exponent of tokens that choose experts on their own",
        "n^EXPONENT of n tokens do; 1: routing without preference",
        default=1.0,
        source="ours: all of them do",
        flag="EXPONENT",
    )


DEGREES = tuple(path for path, leaf in declarations(Parallelism).items() if leaf.few and "." not in path)
"""Parallel degrees of a deployment: whole numbers."""


class MeshAxis(NamedTuple):
    """One axis of the mesh of devices, named as the degree that is its size, and what its devices have in common."""

    name: str
    layer: bool = False  # they work on one layer of one replica
    replica: bool = False  # they are of one replica
    requests: bool = False  # they work on requests of their own, whose cache only they have
    tokens: bool = False  # they work on tokens of their own, and exchange them where experts are spread
    copies: bool = False  # they hold the same dense weights


MESH = (
    MeshAxis("tp", layer=True, replica=True),
    MeshAxis("cp", layer=True, replica=True, tokens=True, copies=True),
    MeshAxis("attention_dp", layer=True, replica=True, requests=True, tokens=True, copies=True),
    MeshAxis("pp", replica=True),
    MeshAxis("dp", requests=True, copies=True),
)
"""Axes from the nearest devices outwards, in the order in which devices are numbered. `ep` is no axis of its own: it
splits experts over the devices of a layer."""


def axes(role: str) -> tuple[str, ...]:
    """Names of the axes that have a role, a field of `MeshAxis`, from the nearest devices outwards."""
    return tuple(axis.name for axis in MESH if getattr(axis, role))


def product(names: tuple[str, ...]) -> str:
    """A product of degrees in words: "tp x cp"."""
    return " x ".join(names)


def degree(of: Scalar | None) -> Scalar:
    """A parallel degree as a number: 1 for None."""
    return 1.0 if of is None else of


def _ways(deployment: Parallelism, names: tuple[str, ...]) -> Scalar:
    """The product of some degrees; one that is None is 1 and costs no operation."""
    # Structure decides which degrees are there: an absent one costs nothing and traces nothing.
    sizes = [size for name in names if (size := getattr(deployment, name)) is not None]
    return functools.reduce(operator.mul, sizes) if sizes else 1.0


_LAYER, _REPLICA, _TOKENS = axes("layer"), axes("replica"), axes("tokens")
# Axes inside one replica whose devices serve requests of their own. The unpacking below asserts that there is one.
_GROUPS = tuple(axis.name for axis in MESH if axis.replica and axis.requests)

(GROUPS,) = _GROUPS
"""The axis of groups that work on requests of their own in one replica, as flags and labels name it."""

SEQUENCE_WAYS = product(tuple(axis.name for axis in reversed(MESH) if axis.requests))
"""Ways that all sequences are split, in words."""


def stage_devices(deployment: Parallelism) -> Scalar:
    """Devices that share one layer: tp x cp x attention_dp."""
    return _ways(deployment, _LAYER)


def replica_devices(deployment: Parallelism) -> Scalar:
    """Devices of one replica: tp x cp x attention_dp x pp."""
    return _ways(deployment, _REPLICA)


def request_groups(deployment: Parallelism) -> Scalar:
    """Groups of a replica's devices that work on requests of their own, each with a cache: attention_dp."""
    return _ways(deployment, _GROUPS)


def token_groups(deployment: Parallelism) -> Scalar:
    """Groups of a layer's devices that work on tokens of their own, between which experts exchange them."""
    return _ways(deployment, _TOKENS)


def splits_requests(deployment: Parallelism) -> bool:
    """Whether a replica has groups with requests of their own, be it one; structure, not value."""
    return any(getattr(deployment, name) is not None for name in _GROUPS)


def splits_tokens(deployment: Parallelism) -> bool:
    """Whether devices of a layer exchange tokens with experts elsewhere; structure, not value."""
    return any(getattr(deployment, name) is not None for name in _TOKENS)


def sequence_ways(deployment: Parallelism) -> Scalar:
    """Ways that all sequences are split: replicas, and groups of requests in each."""
    return deployment.dp * request_groups(deployment)


def dense_copies(deployment: Parallelism) -> Scalar:
    """Devices that hold the same dense weights."""
    return deployment.dp * token_groups(deployment)


AnyParallelism = TypeVar("AnyParallelism", bound=Parallelism)


def with_degrees_of_one(deployment: AnyParallelism) -> AnyParallelism:
    """A deployment with pipeline stages and groups of requests of 1 in place of none, which costs the same."""
    ones: dict[str, Any] = {name: 1.0 for name in ("pp", "attention_dp") if getattr(deployment, name) is None}
    return dataclasses.replace(deployment, **ones)


def on_one_device(deployment: AnyParallelism) -> AnyParallelism:
    """The same replica whole on one device."""
    # A degree of None is 1, so all axes inside the replica collapse; `dp` stays as it is.
    alone: dict[str, Any] = dict.fromkeys(axes("replica"))
    return dataclasses.replace(deployment, **alone | {"tp": 1.0, "ep": None, "stages": None})


def devices(deployment: Parallelism) -> Scalar:
    """Devices of the whole deployment."""
    return replica_devices(deployment) * deployment.dp


def charged_share(deployment: Parallelism) -> Scalar:
    """Devices that a replica is charged for, over those that it uses."""
    # Above 1 where the replica leaves devices of its servers unused.
    return 1.0 if deployment.charged is None else deployment.charged / replica_devices(deployment)


def expert_tp(deployment: Parallelism) -> Scalar:
    """Ways that one expert's width is split: what expert parallelism leaves of the stage's devices."""
    return stage_devices(deployment) / degree(deployment.ep)


def largest_stage(deployment: Parallelism, layers: Scalar) -> Scalar:
    """Share of `layers` layers in the largest pipeline stage, shape (); ceil(layers / pp) / layers where even."""
    if deployment.pp is None:
        return 1.0
    # Uneven stages say themselves how layers are spread: the fullest one over the sum of all.
    if deployment.stages is not None:
        return maximum(*deployment.stages) / sum(deployment.stages)
    # Layers per stage, rounded up: the largest stage sets the pace and the memory.
    return ceiling(layers / deployment.pp) / layers


def pipelined_parts(deployment: Parallelism, sequences: Scalar) -> Scalar:
    """Micro-batches that pipeline stages work on at once: one per stage, or one per sequence where these are fewer."""
    # A pipeline is full with as many micro-batches as stages; a sequence is the least that one can have.
    return 1.0 if deployment.pp is None else minimum(deployment.pp, sequences)
