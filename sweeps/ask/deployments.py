"""Deployments from a user's settings: degrees that are absent until they are set, choices, switches, labels."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.units import nearest, quantity
from jaxroof.deployment import ADAPTED, DEGREES, Adapters, Deployment
from jaxroof.numerics.struct import declarations
from sweeps.ask.leaves import leaf_unit
from sweeps.ask.quantities import quantity_or_zero

PREFIX = "deployment."

FIELDS = tuple(field.name for field in dataclasses.fields(Deployment))

ADAPTERS = "rank=16,loaded=32,targets=q,v"
"""What low-rank adapters look like where a user writes them."""


def with_settings(deployment: Deployment, settings: Mapping[str, Any]) -> Deployment:
    """`deployment` with every setting: a number, a word, true or false, or a list.

    Args:
      settings: name -> a number, text with a unit, text, a boolean, or a list for `stages` and `tree`.

    Raises:
      ValueError: one line that names the setting, its value and what is allowed.
    """
    made = dataclasses.replace(deployment, **{name: _value(name, value) for name, value in settings.items()})
    if made.tree is not None and made.drafts is None:
        return dataclasses.replace(made, drafts=float(len(made.tree)))
    return made


def _value(name: str, value: Any) -> Any:
    where = PREFIX + name
    if name not in FIELDS:
        raise ValueError(f"there is no {where}{nearest(name, FIELDS)}")
    declared = declarations(Deployment).get(name)
    if declared is not None and declared.choices:
        if value not in declared.choices:
            raise ValueError(f"{where} = {value!r} must be {' or '.join(declared.choices)}")
        return value
    if declared is not None and declared.structure:
        if value not in (True, False, "true", "false"):
            raise ValueError(f"{where} = {value!r} must be true or false")
        return value in (True, "true")
    if name == "adapters":
        return adapters(value, where)
    if declared is None:
        numbers = value.split(",") if isinstance(value, str) else value
        if isinstance(numbers, int | float):
            numbers = [numbers]
        if not isinstance(numbers, list | tuple) or not numbers:
            raise ValueError(f"{where} = {value!r} must list {declarations(Deployment)[f'{name}.*'].words}")
        return tuple(_whole(f"{where}.{i}", number) for i, number in enumerate(numbers))
    return quantity_or_zero(value, leaf_unit(where), where)


def adapters(value: Any, where: str) -> Adapters:
    """Adapters of "rank=16,loaded=32,targets=q,v", or of the same as a table.

    Raises:
      ValueError: one line that names what is wrong, its value and what is allowed.
    """
    found = adapter_settings(value)
    if found is None or not set(found) <= {"rank", "loaded", "targets"}:
        raise ValueError(f"{where} = {value!r} must be {ADAPTERS}")
    if "rank" not in found:
        raise ValueError(f"{where} = {value!r} needs a rank: {ADAPTERS}")
    targets = tuple(found.pop("targets", ("q", "v")))
    for target in targets:
        if target not in ADAPTED:
            raise ValueError(f"{where}: {target!r} is not a matrix with adapters; known: {', '.join(ADAPTED)}")
    return Adapters(**{name: _whole(f"{where}.{name}", number) for name, number in found.items()}, targets=targets)


def adapter_settings(value: Any) -> dict[str, Any] | None:
    """Settings by name of "rank=16,targets=q,v" or "rank=16,target=q,v", or of a table; None of any other text."""
    if isinstance(value, Mapping):
        listed = value.get("targets")
        return dict(value) | ({"targets": listed.split(",")} if isinstance(listed, str) else {})
    found: dict[str, Any] = {}
    key = ""
    for part in str(value).split(","):
        name, equals, text = (word.strip() for word in part.partition("="))
        if equals:
            key = "targets" if name == "target" else name
            if key in found:
                return None
            found[key] = [text] if key == "targets" else text
        elif key == "targets":
            found[key].append(name)
        else:
            return None
    return found


def _whole(where: str, value: Any) -> float:
    number = quantity(value, "1", where)
    if number < 1 or number != int(number):
        raise ValueError(f"{where} = {value!r} must be a whole number of at least 1")
    return number


def is_structure(path: str) -> bool:
    """Whether the deployment's leaf at `path` cannot vary along an axis, because it is structure."""
    if not path.startswith(PREFIX):
        return False
    declared = declarations(Deployment).get(path.removeprefix(PREFIX))
    return (declared is None and path.removeprefix(PREFIX) in FIELDS) or (declared is not None and declared.structure)


def label(settings: Mapping[str, Any]) -> str:
    """A deployment's settings as a short name: "tp8", "tp4 attention_dp2 ep8 overlap=gemm"."""
    parts = []
    for name, value in settings.items():
        declared = declarations(Deployment).get(name)
        if declared is not None and declared.structure and not declared.choices:
            parts += [name] if value in (True, "true") else []
        elif name in DEGREES:
            parts.append(f"{name}{float(value):g}")
        else:
            text = ",".join(f"{float(v):g}" for v in value) if isinstance(value, list | tuple) else value
            parts.append(f"{name}={text}")
    return " ".join(parts) or "tp1"
