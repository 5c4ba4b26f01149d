"""A function of many points worked through in small tiles by one compiled kernel, whose numbers stay in the cache."""

from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata

TILE = 64
"""Points of one tile; ours, the fastest of those tried: several registers' worth, and buffers of 256 B."""


def tiled(function: Callable[[Any], Any], tile: int = TILE) -> Callable[[Any], Any]:
    """`function` of one point, as a function of columns of points: what `jax.vmap(function)` returns, to rounding.

    XLA cuts a large program into many loops. Over long columns each of them reads and writes memory; over tiles that
    stay in the first cache, the time to start a loop outweighs its work. Here the tiles and all loops inside them are
    one kernel on a CPU. Worth it for gradients; a forward pass is a loop or two already. Elsewhere the same
    program is compiled as any other.

    Args:
      function: of a tree of scalars to a tree of scalars; pure.
      tile: points of one tile.

    Returns:
      A function of a tree of columns, shapes (points,), to be compiled by `jax.jit`. Differentiable as `function` is.
      It raises ValueError, while tracing, where `points` is no multiple of `tile`.
    """
    mapped = jax.vmap(function)

    @jax.jit
    def through_tiles(columns: Any) -> Any:
        rows = jax.tree.map(lambda column: column.reshape(-1, tile), columns)
        return jax.tree.map(lambda column: column.reshape(-1), jax.lax.map(mapped, rows))

    def of_columns(columns: Any) -> Any:
        points = len(jax.tree.leaves(columns)[0])
        if points % tile:
            raise ValueError(f"points = {points} must be a multiple of the tile, {tile}")
        # What XLA itself says of small loops that it compiles as one kernel: xla/service/cpu/thunk_emitter.cc and
        # small_while_loop_hoisting_pass.cc. A call that were merged into its caller could not be marked.
        return set_xla_metadata(through_tiles(columns), xla_cpu_small_call="true", inlineable="false")

    return of_columns
