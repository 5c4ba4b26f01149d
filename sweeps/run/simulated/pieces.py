"""One piece of many simulations as a program: places whose steps are priced in the same way share it."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jaxroof.batch import Batch, Decode, Encode, Prefill, Traffic
from jaxroof.jobs import Scenario
from jaxroof.numerics.arrays import jax
from jaxroof.prices.prices import step_prices
from jaxroof.prices.tables import Limits, StepPrices
from jaxroof.scheduler import Size, proceed
from sweeps.run.simulated.lanes import Axes, looped, one_by_one
from sweeps.run.simulated.straight import Straight


def limits(size: Size) -> Limits:
    """The largest step that simulations of a size make."""
    return Limits(rows=size.rows, sequences=size.slots, context=size.context)


def piece(
    together: Scenario, tables: StepPrices, size: Size, varied: Axes, short: bool
) -> tuple[Callable[..., Any], list[Any]]:
    """The program of `size.iterations` more, compiled, and the numbers that its prices of steps read.

    It takes these numbers, requests with their policy, and simulations that can go on, and returns what
    `jaxroof.scheduler.proceed` does.

    Args:
      together: scenarios of one structure.
      tables: of their prices, stacked along the first axis.
      varied: axes of `together`.
      short: whether there is little to do.
    """
    # In place of every leaf its axis; -1 stands for None, which would be no leaf.
    axes = jax.tree.unflatten(jax.tree.structure(together), [-1 if axis is None else axis for axis in varied])
    read, structure = jax.tree.flatten(_read(together, tables))
    stacked = jax.tree.leaves(_read(axes, jax.tree.map(lambda _: 0, tables)))
    shapes = tuple(np.shape(leaf)[axis + 1 :] for leaf, axis in zip(read, stacked, strict=True))
    price = _price(structure, shapes, limits(size), jax.numpy.result_type(float))
    work, own = jax.tree.flatten((axes.workload.traffic, axes.workload.policy))
    of_used = tuple(stacked[place] for place in price.used)
    return _program(price, of_used, own, tuple(work), size, short), [read[place] for place in price.used]


def prices_of(one: Scenario, tables: StepPrices, size: Size) -> tuple[Straight, list[Any]]:
    """The price of one engine's steps, and the numbers that it reads.

    Args:
      one: a scenario whose workload is a `Service`, leaves of shape ().
      tables: of its prices.
    """
    read, structure = jax.tree.flatten(_read(one, tables))
    shapes = tuple(np.shape(leaf) for leaf in read)
    price = _price(structure, shapes, limits(size), jax.numpy.result_type(float))
    return price, [np.asarray(read[place], float) for place in price.used]


def priced_step(price: Straight, used: Sequence[Any], batch: Batch, rows: Any) -> tuple[Any, Any]:
    """A step's time on the device and what its host adds, in s.

    Args:
      price: as of `prices_of`, with the numbers that it reads.
    """
    asked = batch.prefill, batch.decode, batch.logits, batch.encode, rows
    device, host = price(used, [jax.numpy.asarray(leaf, float) for leaf in jax.tree.leaves(asked)])
    return device, host


def _read(one: Scenario, tables: StepPrices) -> tuple[Any, ...]:
    """All that prices of steps may read."""
    place = one.hardware, one.model, one.deployment, one.efficiency
    policy = one.workload.policy
    return place, policy.acceptance, policy.hidden_host, one.workload.traffic.encode, tables


@functools.lru_cache(maxsize=256)
def _price(structure: Any, shapes: tuple[tuple[int, ...], ...], most: Limits, dtype: Any) -> Straight:
    """The price of a step, of the numbers of one simulation, and of a batch and its rows."""
    given = jax.tree.unflatten(structure, [jax.ShapeDtypeStruct(shape, dtype) for shape in shapes])
    number = jax.ShapeDtypeStruct((), dtype)
    begun = None if given[3] is None else Encode(sequences=number, tokens=number)
    drafted = None if given[0][2].drafts is None else number
    decode = Decode(sequences=number, context=number, drafted=drafted)
    asked = Prefill(sequences=number, tokens=number, past=number), decode

    def price(given: Any, asked: Any) -> Any:
        place, acceptance, hidden_host, encode, tables = given
        prefill, decode, logits, begun, rows = asked
        hardware, model, deployment, efficiency = place
        beside = acceptance, hidden_host, tables
        _, priced = step_prices(hardware, model, deployment, efficiency, most, *beside, encode=encode)
        return priced(Batch(prefill=prefill, decode=decode, logits=logits, encode=begun), rows)

    return Straight(price, given, (*asked, number, begun, number))


@functools.lru_cache(maxsize=64)
def _program(
    price: Straight, used: Sequence[int], own: Any, work: Sequence[int], size: Size, short: bool
) -> Callable[..., Any]:
    """The program.

    Args:
      used: axis of every number that the price reads; -1: simulations share it.
      own: structure of requests and their policy.
      work: axis of every number in them.
    """

    def go(used: Sequence[Any], own: tuple[Any, Any], run: Any) -> Any:
        return proceed(functools.partial(priced_step, price, used), run, *own, size)

    axes = jax.tree.map(lambda axis: None if axis < 0 else axis, (list(used), jax.tree.unflatten(own, work)))
    at_once = jax.vmap(go, in_axes=(*axes, 0))

    def all_of_them(used: Sequence[Any], own: tuple[Any, Any], run: Any) -> Any:
        # A kernel cannot write to a place of every simulation at once: they run one after the other in it.
        if len(run.order) > 1 and _writes_places(run, own[0]) and jax.default_backend() == "cpu":
            return one_by_one(go, axes, used, own, run)
        return at_once(used, own, run)

    return looped(all_of_them, quick=short)


def _writes_places(run: Any, traffic: Traffic) -> bool:
    """Whether iterations write to one place of many: clients that send again, queues with an order, drafts."""
    return traffic.clients is not None or run.state.waiting.waits is not None or run.engine.drafts is not None
