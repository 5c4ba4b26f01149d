"""Loops that count: how often they run, and their bodies without what only counts, as a scan has them."""

from typing import Any

from workloads.traced.graph import CARRY, Node, Region, Value, without_dead_nodes


def counter_of(params: dict, limits: list[Value], inner: list[Value], first: list[Value]) -> tuple[int, float] | None:
    """Place among the carried values and trips of a counter that counts up by 1 from a known number while it is below
    a known one; None for another loop.

    Args:
      params: of a `while` primitive.
      limits, inner: constants of its test and of its body; first: what it starts from.
    """
    test = params["cond_jaxpr"].jaxpr
    if len(test.eqns) != 1 or test.eqns[0].primitive.name != "lt":
        return None
    return _counted(test.eqns[0], params, limits, inner, first)


def bound_of(params: dict, limits: list[Value], inner: list[Value], first: list[Value]) -> float | None:
    """Trips that a loop has at most, where its test asks for a counter below a known number and for other things
    beside; arguments as of `counter_of`.
    """
    test = params["cond_jaxpr"].jaxpr
    made = {out: eqn for eqn in test.eqns for out in eqn.outvars}
    waiting, needed = list(test.outvars), []
    while waiting:
        eqn = made.get(waiting.pop())
        if eqn is not None and eqn.primitive.name in ("and", "convert_element_type"):
            waiting += [atom for atom in eqn.invars if not hasattr(atom, "val")]
        elif eqn is not None:
            needed.append(eqn)
    counted = (_counted(eqn, params, limits, inner, first) for eqn in needed if eqn.primitive.name == "lt")
    found = [counter[1] for counter in counted if counter is not None]
    return min(found, default=None)


def _counted(
    asked: Any, params: dict, limits: list[Value], inner: list[Value], first: list[Value]
) -> tuple[int, float] | None:
    """Place and trips of the counter that a comparison is of; None where it is none."""
    test, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    counter, limit = asked.invars
    places = dict(zip(test.invars, [*limits, *first], strict=True))
    end = limit.val if hasattr(limit, "val") else getattr(places.get(limit), "constant", None)
    begin = getattr(places.get(counter), "constant", None) if not hasattr(counter, "val") else None
    if end is None or begin is None:
        return None
    if counter not in test.invars[len(limits) :]:
        return None
    place = test.invars.index(counter) - len(limits)
    step = next((eqn for eqn in body.eqns if body.outvars[place] in eqn.outvars), None)
    if step is None or step.primitive.name != "add" or body.invars[len(inner) + place] not in step.invars:
        return None
    steps = [float(atom.val) for atom in step.invars if hasattr(atom, "val")]
    return (place, float(end) - float(begin)) if steps == [1.0] else None


def without_counting(region: Region, carried: list[Value], counter: int) -> Region:
    """The body of a loop that counts, as that of a scan: a slice of an array outside is read where it is, what is
    written into a slice of a carried array that nothing else reads is a result, and the counter counts for nothing.

    Args:
      carried: values of `region` that one run leaves to the next, its outputs in order.
      counter: place of the counter among them.
    """
    made = {id(value) for node in region.nodes for value in node.outputs}
    for node in region.nodes:
        if node.name == "dynamic_slice" and id(node.inputs[0]) not in made and node.inputs[0].name != CARRY:
            node.name, node.params, node.inputs = "loop_slice", {}, node.inputs[:1]
    users = _users(region)
    outputs, gone = [], {id(carried[counter])}
    for place, (old, new) in enumerate(zip(carried, region.outputs, strict=True)):
        if place == counter:
            continue
        written = new.node
        alone = written is not None and written.name == "dynamic_update_slice" and written.inputs[0] is old
        if alone and id(new) not in users and users.get(id(old)) == [written]:
            gone.add(id(old))
            new = written.inputs[1]
        outputs.append(new)
    inputs = [value for value in region.inputs if id(value) not in gone]
    return without_dead_nodes(Region(inputs, outputs, region.nodes))


def _users(region: Region) -> dict[int, list[Node]]:
    """Nodes that read each value, those of loops inside too."""
    users: dict[int, list[Node]] = {}
    for node in region.everything():
        for value in node.inputs:
            users.setdefault(id(value), []).append(node)
    return users
