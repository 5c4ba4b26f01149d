"""A function of many points worked through in small tiles by one compiled kernel, whose numbers stay in the cache."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata

TILE = 64
"""Points of one tile; ours, the fastest of those tried: several registers' worth, and buffers of 256 B."""


def compiled(function: Callable[[Any], Any], columns: Any, tile: int = TILE) -> Callable[[Any], Any]:
    """`jax.vmap(function)` compiled for columns like these: in tiles where XLA compiles them, otherwise as it is.

    XLA's CPU compiler has no kernel for a marked call in which something is sorted or scattered; it says so with an
    error, and the plain map takes its place.

    Args:
      function: of a tree of scalars to a tree of scalars; pure.
      columns: a tree of columns, shapes (points,), of one float type.
      tile: points of one tile.

    Returns:
      A function of columns of these shapes and types, to a tree of columns.
    """
    points = len(jax.tree.leaves(columns)[0])
    if points > tile and points % tile == 0:
        try:
            return jax.jit(tiled(function, tile)).lower(columns).compile()
        except jax.errors.JaxRuntimeError:
            pass  # the plain map gives the same numbers; only a compiler's gap is met here
    return jax.jit(jax.vmap(function)).lower(columns).compile()


def tiled(function: Callable[[Any], Any], tile: int = TILE) -> Callable[[Any], Any]:
    """`function` of one point, as a function of columns of points: what `jax.vmap(function)` returns, to rounding.

    XLA cuts a large program into many loops. Over long columns each of them reads and writes memory; over tiles that
    stay in the first cache, the time to start a loop outweighs its work. Here the tiles and all loops inside them are
    one kernel on a CPU. Worth it for gradients; a forward pass is a loop or two already. Elsewhere the same
    program is compiled as any other.

    XLA ends the process at a marked call with an argument that its own simplifications leave unread. So the call has
    one argument: all columns, stacked, of which something is always read.

    Args:
      function: of a tree of scalars to a tree of scalars; pure.
      tile: points of one tile.

    Returns:
      A function of a tree of columns, shapes (points,), of one float type, to be compiled by `jax.jit`. Differentiable
      as `function` is. It raises ValueError, while tracing, where the columns differ in type or `points` is no
      multiple of `tile`. A single tile is mapped without the mark.
    """
    mapped = jax.vmap(function)

    def of_columns(columns: Any) -> Any:
        leaves, structure = jax.tree.flatten(columns)
        points, dtypes = len(leaves[0]), {str(jnp.result_type(leaf)) for leaf in leaves}
        if points % tile:
            raise ValueError(f"points = {points} must be a multiple of the tile, {tile}")
        if len(dtypes) > 1:
            raise ValueError(f"columns are of types {', '.join(sorted(dtypes))}; all must be of one")
        if points == tile:
            return mapped(columns)

        @jax.jit
        def through_tiles(stacked: jax.Array) -> Any:
            def at(start: jax.Array) -> Any:
                return mapped(structure.unflatten(list(jax.lax.dynamic_slice_in_dim(stacked, start, tile, axis=1))))  # type: ignore[attr-defined]

            found = jax.lax.map(at, jnp.arange(0, points, tile))
            return jax.tree.map(lambda column: column.reshape(-1), found)

        # What XLA itself says of small loops that it compiles as one kernel: xla/service/cpu/thunk_emitter.cc and
        # small_while_loop_hoisting_pass.cc. A call that were merged into its caller could not be marked. Its arguments
        # are looked up among those that are read: xla/backends/cpu/codegen/computation_kernel_emitter.cc.
        return set_xla_metadata(through_tiles(jnp.stack(leaves)), xla_cpu_small_call="true", inlineable="false")

    return of_columns
