"""An engine's policy with what a user changes of it, every value checked."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

from hwspaces import formatted, quantity
from hwspaces.units import nearest
from jaxroof.policy import ORDERS, QUEUES, Policy
from sweeps.ask.engines import ENGINES
from sweeps.ask.engines import policy as engine_policy
from sweeps.data.labels import number

SWITCHES = ("chunked", "reserve", "swap", "prefix_caching", "hidden_host")
FIELDS = tuple(field.name for field in dataclasses.fields(Policy))


def chosen_policy(engine: str, values: Mapping[str, Any]) -> Policy:
    """The policy of `engine` with `values` in place of its own.

    Args:
      engine: a key of `sweeps.ask.engines.ENGINES`.
      values: fields of `Policy` by name, as numbers or text: order and queue by their names, switches 0 or 1.

    Raises:
      ValueError: one line that names the field, its value and what is allowed.
    """
    if not isinstance(engine, str) or engine not in ENGINES:
        raise ValueError(f"engine = {engine!r} is not known{nearest(str(engine), ENGINES)}")
    for name in values:
        if name not in FIELDS:
            raise ValueError(f"there is no policy.{name}{nearest(name, FIELDS)}")
    found = engine_policy(engine, **{name: policy_value(name, value) for name, value in values.items()})
    if found.swap and not found.swap_time:
        raise ValueError(
            "policy.swap = 1 needs policy.swap_time: s to move one token's cache to or from host memory, which is its "
            "bytes over the bandwidth of the host's link; no hardware file has that"
        )
    return found


def policy_value(name: str, value: Any) -> float | str:
    """The value of the policy's field `name`: its order as an index into `ORDERS`.

    Raises:
      ValueError: one line that names the field, its value and what is allowed.
    """
    return _VALUES[name](f"policy.{name}", value)


def policy_values(policy: Policy) -> dict[str, tuple]:
    """Every number of a policy by its leaf's path, as `sweeps.ask.effects` takes values."""
    return {f"policy.{name}": (getattr(policy, name),) for name in FIELDS}


def policy_text(policy: Policy) -> str:
    """A policy in words: "mixed, fcfs, token_budget 8,192, ..."; what it does not do is left out."""
    parts = [ORDERS[int(policy.order)], policy.queue]
    for name in FIELDS:
        value = getattr(policy, name)
        if name in SWITCHES:
            parts += [name.replace("_", " ")] if value else []
        elif name == "swap_time":
            parts += [f"{formatted(value, 's')} per swapped token"] if value else []
        elif name == "graph_limit":
            parts += [f"graph_limit {number(value)}"] if policy.graph_step else []
        elif name not in ("order", "queue") and value and math.isfinite(value):
            parts.append(f"{name} {number(value, 4)}")
    return ", ".join(parts)


def policy_record(policy: Policy) -> dict[str, float | str | None]:
    """A policy as plain data: order by its name, what is not limited as None."""
    values = {name: getattr(policy, name) for name in FIELDS}
    found = {name: value if isinstance(value, str) or math.isfinite(value) else None for name, value in values.items()}
    return found | {"order": ORDERS[int(policy.order)]}


def _one_of(names: tuple[str, ...]) -> Callable[[str, Any], str]:
    def value_of(key: str, value: Any) -> str:
        if value not in names:
            raise ValueError(f"{key} = {value!r} must be {', '.join(names[:-1])} or {names[-1]}")
        return value

    return value_of


def _order(key: str, value: Any) -> float:
    return float(ORDERS.index(_one_of(ORDERS)(key, value)))


def _switch(key: str, value: Any) -> float:
    found = _number(value)
    if found not in (0.0, 1.0):
        raise ValueError(f"{key} = {value!r} must be 0 or 1")
    return found


def _count(least: int, most: float = 2.0**30) -> Callable[[str, Any], float]:
    def value_of(key: str, value: Any) -> float:
        found = _number(value)
        if not (found == math.inf == most or (least <= found <= most and found == math.floor(found))):
            above = "" if math.isinf(most) else f" to {most:.0f}"
            raise ValueError(f"{key} = {value!r} must be a whole number of at least {least}{above}")
        return found

    return value_of


def _share(key: str, value: Any) -> float:
    found = _number(value)
    if not 0.0 <= found < 1.0:
        raise ValueError(f"{key} = {value!r} must be a share from 0 to below 1")
    return found


def _time(key: str, value: Any) -> float:
    return 0.0 if value in (0, "0") else quantity(value, "s", key)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


_VALUES: dict[str, Callable[[str, Any], float | str]] = {
    **dict.fromkeys(SWITCHES, _switch),
    "order": _order,
    "token_budget": _count(1),
    "max_sequences": _count(1),
    "block_size": _count(1, 4096),
    "watermark": _share,
    "swap_time": _time,
    "max_waiting": _count(1, math.inf),
    "graph_step": _count(0),
    "graph_limit": _count(0),
    "acceptance": _share,
    "queue": _one_of(QUEUES),
}
"""Field -> what reads its value, given the key that errors name and what was written."""
