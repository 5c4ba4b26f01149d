"""A design problem for every value of its conditions, such as every model: a design does not choose among them."""

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from sweeps.ask import spec as sweep_spec
from sweeps.ask.leaf_axes import short_name
from sweeps.ask.leaves import leaf
from sweeps.ask.names import MODEL
from sweeps.data import labels
from sweeps.data.conditions import names_of

OWN = ("optimize", "constraints")
"""Tables of a design problem that its sweep has no use for."""


def per_condition(source: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], Mapping[str, Any]]]:
    """The specification at every combination of the values that lists give its conditions, and these values by name.

    Conditions are the model and numbers of its traffic, or what the key `per` names. A specification without such
    lists, or with members of its own, is returned as it is.

    Raises:
      ValueError: one line: a wrong key or value, or a name in `per` of what does not vary.
    """
    if "mix" in source or "scenarios" in source:
        yield {}, source
        return
    plain = {key: value for key, value in source.items() if key not in OWN}
    checked = sweep_spec.spec({**plain, "mode": "sample"})
    varied = [key for key, names in checked.objects.items() if len(names) > 1] + [short_name(p) for p in checked.axes]
    for name in names_of(checked.per) or ():
        labels.known(name, varied, "axis")
    lists = dict(_lists(checked))
    for values in itertools.product(*lists.values()):
        own = dict(source)
        for path, value in zip(lists, values, strict=True):
            own = _at(own, path, value)
        yield {short_name(path) if "." in path else path: value for path, value in zip(lists, values, strict=True)}, own


def _lists(checked: sweep_spec.Spec) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Key or path of every condition that a list is given of, and the list."""
    named = names_of(checked.per)
    for key, names in checked.objects.items():
        if len(names) > 1 and (key == MODEL if named is None else key in named):
            yield key, names
    for path, values in checked.axes.items():
        declared = leaf(path)
        usual = declared is not None and declared.condition
        if isinstance(values, tuple) and len(values) > 1 and (usual if named is None else short_name(path) in named):
            yield path, values


def _at(source: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """The specification with one value in place of a list."""
    root, _, key = path.partition(".")
    if not key:
        return {**source, root: value}
    if key in source.get(root, {}):
        return {**source, root: {**source[root], key: value}}
    # A single value belongs in [set], not among the axes.
    axes = {name: own for name, own in source["axes"].items() if name != path}
    return {**source, "axes": axes, "set": {**source.get("set", {}), path: value}}
