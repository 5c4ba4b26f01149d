"""Compiled evaluation: one program for all points of a structure, kept for the next ones."""

import collections
import concurrent.futures
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jax, jax_setting
from jaxroof.numerics.struct import given
from sweeps.run.compilers import loops_known
from sweeps.run.points import Points, Settings, filled, scenario_at, taken
from sweeps.run.ways import Way

Program = Callable[..., Any]
"""Of a base, settings and further arguments."""

MOST_KNOWN = 64
"""Programs that are kept for the next points of the same structure."""


def prepared(
    function: Callable[..., Any], base: Scenario, part: Points, way: Way, others: tuple[Any, ...] = ()
) -> None:
    """Compile, and call once, what the evaluation of points of this structure needs."""
    first = Points(part.index[:1], taken(part.settings, np.zeros(1, int)))
    called(function, base, first, way, others, lambda points: None)


def called(
    function: Callable[..., Any],
    base: Scenario,
    part: Points,
    way: Way,
    others: tuple[Any, ...],
    progress: Callable[[int], None],
) -> Any:
    """The program of a structure, called for as many points at a time as `way` says."""
    number, varies = len(part.index), any(np.ndim(leaf) for leaf in jax.tree.leaves(part.settings))
    # Lanes are the points of one call; without a limit a single call takes all of them.
    lanes = way.lanes or number
    lanes = min(lanes, number) if way.at_most else lanes
    first = filled(part.settings, 0, lanes, number)
    program = _program(function, base, first, way)

    def chunk(low: int) -> Any:
        settings = first if low == 0 else filled(part.settings, low, lanes, number)
        results = jax.device_get(program(base, settings, *others))
        # Points beyond the last one fill the call up and are cut off here.
        own = min(lanes, number - low)
        if varies:
            return own, jax.tree.map(lambda values: values[:own], results)
        # Without settings that vary, one result holds for all points.
        return own, jax.tree.map(lambda value: np.broadcast_to(value, (own, *np.shape(value))), results)

    chunks = []
    with concurrent.futures.ThreadPoolExecutor(way.threads) as pool:
        # XLA releases Python's lock while it computes, so that threads run several calls at once.
        calls = map if way.threads == 1 else pool.map
        for own, columns in calls(chunk, range(0, number, lanes)):
            chunks.append(columns)
            progress(own)
    return chunks[0] if len(chunks) == 1 else jax.tree.map(lambda *values: np.concatenate(values), *chunks)


def _program(function: Callable[..., Any], base: Scenario, settings: Settings, way: Way) -> Callable[..., Any]:
    """The compiled function of a base, settings and further arguments: one that is there already, if there is."""
    leaves, structure = jax.tree.flatten(settings)
    along = structure.unflatten([0 if np.ndim(leaf) else None for leaf in leaves])  # type: ignore[attr-defined]
    varies = tuple(bool(np.ndim(leaf)) for leaf in leaves)
    kind = function, structure, varies, jax_setting("jax_enable_x64")
    if way.loops and loops_known():
        # All that points share is compiled into loops: the base, and settings that do not vary.
        shared = tuple(float(leaf) for leaf in leaves if not np.ndim(leaf))
        looped = _kept(("loops", *kind, id(base), shared), base, lambda: _looped(function, base, settings))
        if looped is not None:
            return looped
    # A base whose numbers are compiled in is known by identity; else its structure is enough.
    own = id(base) if way.constants else jax.tree.structure(base)
    return given(
        _kept(("mapped", *kind, own, way.options), base, lambda: _mapped(function, base, along, way)),
        "program of these points",
    )


def _kept(key: tuple[Any, ...], base: Scenario, made: Callable[[], Program | None]) -> Program | None:
    """The program of a key, made where it is not known yet; several threads may make different ones at once."""
    with _LOCK:
        lock = _MAKING.setdefault(key, threading.Lock())
    with lock:
        with _LOCK:
            known = _KNOWN.get(key)
            if known is not None:
                _KNOWN.move_to_end(key)
                return known[1]
        program = made()
        with _LOCK:
            _KNOWN[key] = base, program
            _MAKING.pop(key, None)
            # The program that has not been used for longest goes first.
            if len(_KNOWN) > MOST_KNOWN:
                _KNOWN.popitem(last=False)
        return program


_KNOWN: collections.OrderedDict[tuple[Any, ...], tuple[Scenario, Program | None]] = collections.OrderedDict()
"""Programs, each with its base: as long as that is kept, no other has its identity. None: loops that cannot be made."""

_MAKING: dict[tuple[Any, ...], threading.Lock] = {}
"""Of programs that are being made."""

_LOCK = threading.Lock()


def _mapped(function: Callable[..., Any], base: Scenario, along: Any, way: Way) -> Callable[..., Any]:
    """`function` over the settings that vary, compiled for each of the shapes it is called with."""

    def at_a_point(base: Scenario, settings: Settings, *others: Any) -> Any:
        return function(scenario_at(base, settings), *others)

    def over_points(base: Scenario, settings: Settings, *others: Any) -> Any:
        if not jax.tree.leaves(along):
            return at_a_point(base, settings, *others)
        # Only settings with a leading dimension are mapped over; base and further arguments are shared.
        return jax.vmap(at_a_point, in_axes=(None, along, *(None for _ in others)))(base, settings, *others)

    options = dict(way.options) or None
    if not way.constants:
        return jax.jit(over_points, compiler_options=options)
    # The base is captured here, so that its numbers become constants that the compiler folds.
    program = jax.jit(lambda settings, *others: over_points(base, settings, *others), compiler_options=options)
    return lambda _, settings, *others: program(settings, *others)


def _looped(function: Callable[..., Any], base: Scenario, settings: Settings) -> Program | None:
    """`function` as loops over columns like these; whatever all points share is a constant of them.

    None where it has operations that loops have not, or not just columns of numbers vary.
    """
    from sweeps.run.native.graph import Unsupported
    from sweeps.run.native.loops import mapped

    leaves, structure = jax.tree.flatten(settings)
    varies = [bool(np.ndim(leaf)) for leaf in leaves]

    def at_a_point(columns: list[jax.Array]) -> Any:
        own = iter(columns)
        # Leaves that vary come from the columns of the call; the others are constants of the loop.
        filled = [next(own) if known else leaf for known, leaf in zip(varies, leaves, strict=True)]
        return function(scenario_at(base, structure.unflatten(filled)))  # type: ignore[attr-defined]

    def columns_of(settings: Settings) -> list[np.ndarray]:
        return [np.asarray(leaf) for known, leaf in zip(varies, jax.tree.leaves(settings), strict=True) if known]

    try:
        columns = columns_of(settings)
        plain = bool(columns) and all(column.ndim == 1 for column in columns)
        program = mapped(at_a_point, columns) if plain else None
    except Unsupported:
        return None
    return program and (lambda _, settings: program(columns_of(settings)))
