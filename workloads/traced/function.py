"""A function of JAX arrays, traced once: its ops and its memory as functions of symbolic sizes."""

import collections
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from jaxroof.hardware import OnChip
from jaxroof.numerics.struct import Scalar
from jaxroof.numerics.tree import leaves, structure
from jaxroof.op import Ops
from workloads.traced.attention import TracedAttention
from workloads.traced.emission import Emission
from workloads.traced.fusion import POLICIES
from workloads.traced.graph import Region, dtype_name
from workloads.traced.kernels import Amount, KernelRun, TracedKernel
from workloads.traced.memory import kept_moments, peak_bytes, with_on_chip
from workloads.traced.products import Product, is_asked
from workloads.traced.rules import require_known, with_shared_nodes
from workloads.traced.sizes import Sizes, symbols_of
from workloads.traced.walk import graph_of

USUAL_SIZE = 256.0
"""Size of a symbol that fusion is decided at where none is given."""


@dataclasses.dataclass(frozen=True, eq=False)
class Traced:
    """The kernels of a function under a fusion policy, in the order they first run.

    Attributes:
      name: of the function.
      policy: one of `workloads.traced.fusion.POLICIES`.
      symbols: names of its symbolic sizes.
      sizes: of the symbols, at which fusion was decided.
      kernels: equal ones merged, with how often they run.
      moments: memory at the moments that may be the peak.
      notes: what a reader should know.
      dims: symbolic dimensions of its arguments.
      decided: the same function where fusion is decided at other sizes, by these.
    """

    name: str
    policy: str
    symbols: tuple[str, ...]
    sizes: dict[str, float]
    kernels: tuple[TracedKernel, ...]
    moments: tuple[Amount, ...]
    notes: tuple[str, ...]
    dims: tuple[Any, ...] = ()
    decided: "Callable[[Mapping[str, float]], Traced] | None" = None

    @property
    def convolves(self) -> bool:
        """Whether it has a convolution."""
        return any(isinstance(kernel.core, Product) and kernel.core.window for kernel in self.kernels)

    def require_sizes(self, sizes: Mapping[str, float]) -> None:
        """ValueError in one line where a dimension of an argument would have no elements."""
        at = Sizes(sizes)
        for dim in self.dims:
            if float(at.number(dim)) < 1.0:
                given = ", ".join(f"{name} = {size:g}" for name, size in sizes.items())
                raise ValueError(
                    f"the size {dim} of an argument of {self.name} is {float(at.number(dim)):g} at {given}"
                )

    def require_arithmetic(self, matrix: Collection[str], device: str) -> None:
        """ValueError in one line where hardware with these matrix precisions lacks what a kernel computes in.

        Args:
          matrix: precisions of the hardware's matrix units.
          device: its name.
        """
        for kernel in self.kernels:
            lacking = kernel.lacking(matrix)
            if lacking:
                raise ValueError(f"{device} has {lacking}; it has {', '.join(matrix)}")

    def ops(
        self,
        sizes: Mapping[str, Scalar] | None = None,
        matrix: Collection[str] = ("tf32",),
        on_chip: OnChip | None = None,
    ) -> Ops:
        """Its ops by name where symbols have these values; `sizes` where none are given.

        Args:
          sizes: of every symbol: a number, a column of them, or a tracer. Every quantity is differentiable in them.
          matrix: precisions of the hardware's matrix units, which with what JAX was asked for decide those of products:
            `workloads.traced.products`.
          on_chip: memory that a compiler fills; what stays there is not among the bytes of an op.
        """
        at = Sizes(self.sizes if sizes is None else sizes)
        ops = {kernel.name: kernel.op(at, matrix) for kernel in self.kernels}
        return ops if on_chip is None else with_on_chip(ops, self.kernels, at, on_chip)

    def asked_products(self) -> tuple[tuple[str, str], ...]:
        """Types of operands whose products run as JAX is asked to, each with what it was asked for."""
        products = (kernel for kernel in self.kernels if isinstance(kernel.core, Product | TracedAttention))
        types = dict.fromkeys((dtype_name(kernel.dtype), kernel.asked) for kernel in products)
        return tuple((name, requested) for name, requested in types if is_asked(name))

    def peak_bytes(self, sizes: Mapping[str, Scalar] | None = None) -> Scalar:
        """B that exist at once at most: inputs, results, and what kernels pass on. Shape ()."""
        return peak_bytes(list(self.moments), Sizes(self.sizes if sizes is None else sizes))


def traced(
    function: Callable[..., Any],
    *args: Any,
    policy: str = "framework",
    sizes: Mapping[str, float] | None = None,
    trips: float | None = None,
    fused_loops: bool = False,
    name: str | None = None,
) -> Traced:
    """The kernels of `function(*args)`.

    Args:
      function: of trees of arrays; traced by JAX, never run.
      args: trees of arrays or `jax.ShapeDtypeStruct`s, whose shapes may have symbols of `jax.export.symbolic_shape`.
        Other leaves, such as numbers and functions, are static: the function sees them as they are. What it writes
        into its arguments, as into modules of Flax NNX, is a result.
      policy: how primitives are fused, one of `POLICIES`.
      sizes: of symbols, at which fusion is decided.
      trips: how often loops run that do not say so.
      fused_loops: loops without matrix products are one kernel each, as libraries have them for selective scans.
      name: of the function in notes.

    Raises:
      ValueError: one line, for a primitive that nothing is known of, a loop without trips, an unknown policy.
    """
    if policy not in POLICIES:
        raise ValueError(f"fusion = {policy!r} is not known; known: {', '.join(POLICIES)}")
    from jaxroof.numerics.arrays import jax

    flat, tree = jax.tree_util.tree_flatten_with_path(args)
    # Arrays are traced; everything else is a constant of the function.
    places = [place for place, (_, leaf) in enumerate(flat) if is_array(leaf)]

    def called(*arrays: Any) -> list[Any]:
        given = dict(zip(places, arrays, strict=True))
        arguments = jax.tree.unflatten(tree, [given.get(place, leaf) for place, (_, leaf) in enumerate(flat)])
        results = jax.tree.leaves(function(*arguments))
        own = set(map(id, arrays))
        written = [leaf for leaf in jax.tree.leaves(arguments) if id(leaf) not in own]  # modules of Flax NNX
        return [one for one in (*results, *written) if is_array(one)]

    # Tracing runs no arithmetic: shapes and types alone.
    closed = jax.make_jaxpr(called)(*(flat[place][1] for place in places))
    paths = [jax.tree_util.keystr(flat[place][0]) for place in places]
    region = graph_of(closed, paths, trips)
    require_known(list(region.everything()))
    known = name or str(getattr(function, "__name__", "function"))
    return kernels_of(region, policy, sizes or {}, known, fused_loops)


def is_array(leaf: Any) -> bool:
    """Whether a leaf of a tree is an array, or says the shape of one; other ones are taken as they are."""
    return hasattr(leaf, "shape") and hasattr(leaf, "dtype")


def kernels_of(region: Region, policy: str, sizes: Mapping[str, float], name: str, fused_loops: bool = False) -> Traced:
    """The kernels of a graph under a policy, at first at these sizes of its symbols."""
    symbols = sorted(set().union(*(symbols_of(value.shape) for value in region.inputs)))
    own = {symbol: float(sizes.get(symbol, USUAL_SIZE)) for symbol in symbols}
    # Eager execution repeats what the code repeats; compilers compute equal values once.
    if policy != "eager":
        region = with_shared_nodes(region)
    emission = Emission(policy, Sizes(own), fused_loops)
    emission.notes |= _sharding_notes(region)
    peaks = emission.region(region)
    if not emission.kernels:
        raise ValueError(f"{name} computes nothing of its arguments: no kernel runs")
    # Which moment is the peak depends on the sizes: trials near and far from the given ones pick candidates.
    trials = [Sizes({symbol: size * factor for symbol, size in own.items()}) for factor in (1.0, 0.125, 16.0)]
    trials += [Sizes(own | {symbol: own[symbol] * factor}) for symbol in symbols for factor in (0.03125, 32.0)]
    # A second point, with another factor for each symbol, tells kernels apart that are equal at the first by chance.
    apart = Sizes({symbol: size * (2.0 + 3.0 * i) + 1.0 for i, (symbol, size) in enumerate(own.items())})
    kernels = _named(_merged(emission.kernels, trials[0], apart))
    moments = kept_moments(peaks, trials)
    dims = {str(dim): dim for value in region.inputs for dim in value.shape if not isinstance(dim, int)}
    return Traced(
        name=name,
        policy=policy,
        symbols=tuple(symbols),
        sizes=own,
        kernels=kernels,
        moments=tuple(moments),
        notes=tuple(sorted(emission.notes)),
        dims=tuple(dims.values()),
        # Fusion depends on sizes: other sizes may need another set of kernels.
        decided=lambda sizes: kernels_of(region, policy, own | dict(sizes), name, fused_loops),
    )


def _sharding_notes(region: Region) -> set[str]:
    """What is not known of a function on several devices."""
    notes, nodes = set(), list(region.everything())
    if any(node.name == "sharding_constraint" for node in nodes):
        notes.add("shardings that jit follows are not known: only shard_map shows what a device does and sends")
    # Whole arrays outside and parts inside of shard_map.
    inside = [("mesh" in node.params) for node in nodes if not (node.is_view or node.known or node.bodies)]
    if any(inside) and not all(inside):
        notes.add("what is outside of shard_map counts whole arrays, as on one device")
    return notes


def _merged(kernels: Sequence[TracedKernel], first: Sizes, second: Sizes) -> list[TracedKernel]:
    """Kernels of which each is another op: of those that are the same at two sizes, one with all their runs.

    Every symbol has a size of its own at one of them: those of nodes and of edges are not alike.
    """
    unique: dict[Any, TracedKernel] = {}
    for kernel in kernels:
        alone = dataclasses.replace(kernel, runs=[KernelRun(())])
        # Two kernels are one op if all their numbers agree at two unrelated sizes.
        ops = [alone.op(at, ("fp32",)) for at in (first, second)]
        numbers = tuple(float(leaf) for op in ops for leaf in leaves(op))
        key = str(kernel.dtype), kernel.asked, structure(ops[0]), numbers
        if key in unique:
            unique[key].take(kernel)
        else:
            unique[key] = kernel
    return list(unique.values())


def _named(kernels: list[TracedKernel]) -> tuple[TracedKernel, ...]:
    """The kernels with names of their own: a number after those that come again."""
    counts = collections.Counter(kernel.name for kernel in kernels)
    seen: collections.Counter[str] = collections.Counter()
    for kernel in kernels:
        if counts[kernel.name] > 1:
            seen[kernel.name] += 1
            kernel.name = f"{kernel.name}.{seen[kernel.name]}"
    return tuple(kernels)
