"""The graph of a function from its trace: calls inlined, loops and branches as regions."""

from typing import Any

from workloads.traced.elementwise import DRAWN
from workloads.traced.graph import CARRY, Node, Region, Value, without_dead_nodes
from workloads.traced.rules import LIGHT, is_known, kind_of, refusal


def counter_of(
    params: dict[str, Any], limits: list[Value], inner: list[Value], first: list[Value]
) -> tuple[int, float] | None:
    """Place among the carried values and trips of a counter that counts up by 1 from a known number while it is below
    a known one; None for another loop.

    Args:
      params: of a `while` primitive.
      limits, inner: constants of its test and of its body; first: what it starts from.
    """
    test = params["cond_jaxpr"].jaxpr
    # A counted loop's test is one comparison.
    if len(test.eqns) != 1 or test.eqns[0].primitive.name != "lt":
        return None
    return _counted(test.eqns[0], params, limits, inner, first)


def bound_of(params: dict[str, Any], limits: list[Value], inner: list[Value], first: list[Value]) -> float | None:
    """Trips that a loop has at most, where its test asks for a counter below a known number and for other things
    beside; arguments as of `counter_of`.
    """
    test = params["cond_jaxpr"].jaxpr
    equations = {out: eqn for eqn in test.eqns for out in eqn.outvars}
    # A conjunction of conditions: each "less than" in it bounds the trips.
    waiting, needed = list(test.outvars), []
    while waiting:
        eqn = equations.get(waiting.pop())
        if eqn is not None and eqn.primitive.name in ("and", "convert_element_type"):
            waiting += [atom for atom in eqn.invars if not hasattr(atom, "val")]
        elif eqn is not None:
            needed.append(eqn)
    counted = (_counted(eqn, params, limits, inner, first) for eqn in needed if eqn.primitive.name == "lt")
    bounds = [counter[1] for counter in counted if counter is not None]
    return min(bounds, default=None)


def _counted(
    asked: Any, params: dict[str, Any], limits: list[Value], inner: list[Value], first: list[Value]
) -> tuple[int, float] | None:
    """Place and trips of the counter that a comparison is of; None where it is none."""
    test, body = params["cond_jaxpr"].jaxpr, params["body_jaxpr"].jaxpr
    counter, limit = asked.invars
    places = dict(zip(test.invars, [*limits, *first], strict=True))
    # The limit is a literal or a constant from outside of the loop.
    end = limit.val if hasattr(limit, "val") else getattr(places.get(limit), "constant", None)
    begin = getattr(places.get(counter), "constant", None) if not hasattr(counter, "val") else None
    if end is None or begin is None:
        return None
    if counter not in test.invars[len(limits) :]:
        return None
    place = test.invars.index(counter) - len(limits)
    # The body has to add 1 to it, and nothing else.
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
    inner_ids = {id(value) for node in region.nodes for value in node.outputs}
    for node in region.nodes:
        # x[i] of an array outside is what a scan calls a slice.
        if node.name == "dynamic_slice" and id(node.inputs[0]) not in inner_ids and node.inputs[0].name != CARRY:
            node.name, node.params, node.inputs = "loop_slice", {}, node.inputs[:1]
    users = _users(region)
    outputs, gone = [], {id(carried[counter])}
    for place, (old, new) in enumerate(zip(carried, region.outputs, strict=True)):
        if place == counter:
            continue
        written = new.node
        # Writing x[i] of a carried array that nothing else reads is what a scan stacks as results.
        alone = written is not None and written.name == "dynamic_update_slice" and written.inputs[0] is old
        if written is not None and alone and id(new) not in users and users.get(id(old)) == [written]:
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


CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr", "call")
"""Parameters that hold what a call runs."""

INLINED = {
    *("jit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat2", "shard_map", "custom_lin", "run_state"),
    *("composite", "custom_vmap_call", "call"),
}
"""Primitives that run a function once."""

MOST_PRIMITIVES = 200_000
"""Primitives of a function at most, those of what it calls as often as it is called."""


def graph_of(closed: Any, names: list[str], trips: float | None) -> Region:
    """The graph of a closed jaxpr.

    Args:
      closed: `jax.core.ClosedJaxpr`.
      names: of its inputs.
      trips: how often loops run that do not say so; None: they are refused.

    Raises:
      ValueError: one line, for a loop without a known number of trips, a call that is not known, too many primitives.
    """
    if _primitives(closed.jaxpr, {}) > MOST_PRIMITIVES:
        raise ValueError(f"it runs more than {MOST_PRIMITIVES:,} operations, loops counted once")
    alone = len(closed.jaxpr.eqns) == 1  # jit of all: its name says nothing
    walker = _Walker(trips, {closed.jaxpr.eqns[0].params.get("name")} if alone else set())
    inputs = [
        Value(var.aval.shape, var.aval.dtype, name=name) for var, name in zip(closed.jaxpr.invars, names, strict=True)
    ]
    nodes: list[Node] = []
    outputs = walker.inlined(closed.jaxpr, closed.consts, inputs, nodes, "", {})
    return without_dead_nodes(Region(inputs, outputs, nodes))


def _primitives(jaxpr: Any, found: dict[int, int]) -> int:
    """Primitives of a jaxpr, those of what it calls as often as it is called; `found`: of inner ones, by identity."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    # Inner jaxprs are shared between calls: counted once each, added at every call.
    if id(jaxpr) not in found:
        params = (value for eqn in jaxpr.eqns for value in eqn.params.values())
        several = (value if isinstance(value, tuple | list) else (value,) for value in params)
        inner = (one for values in several for one in values if hasattr(getattr(one, "jaxpr", one), "eqns"))
        found[id(jaxpr)] = len(jaxpr.eqns) + sum(_primitives(one, found) for one in inner)
    return found[id(jaxpr)]


class _Walker:
    def __init__(self, trips: float | None, plain: set[Any]):
        self._trips = trips
        self._plain = {*_PLAIN, *plain}
        self._constants: dict[int, Value] = {}

    def inlined(
        self, jaxpr: Any, consts: Any, inputs: list[Value], nodes: list[Node], scope: str, axes: dict[str, Any]
    ) -> list[Value]:
        """Append what `jaxpr` does of `inputs` to `nodes`, and return its results.

        Args:
          axes: sizes and strides of the mesh axes that collectives may name.
        """
        values = dict(zip(jaxpr.invars, inputs, strict=True))
        values |= {var: self._constant(const) for var, const in zip(jaxpr.constvars, consts, strict=True)}

        def read(atom: Any) -> Value:
            if not hasattr(atom, "val"):
                return values[atom]
            return Value(atom.aval.shape, atom.aval.dtype, constant=atom.val)

        for eqn in jaxpr.eqns:
            stack = str(eqn.source_info.name_stack)
            place = f"{scope}/{stack}".strip("/")
            # Straight-line code: operands are known when an equation comes.
            operands = [read(atom) for atom in eqn.invars]
            results = self._results(eqn, operands, nodes, place, axes)
            values |= dict(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in jaxpr.outvars]

    def _constant(self, const: Any) -> Value:
        if id(const) not in self._constants:
            self._constants[id(const)] = Value(const.shape, const.dtype, constant=const, name="constant")
        return self._constants[id(const)]

    def _results(
        self, eqn: Any, operands: list[Value], nodes: list[Node], scope: str, axes: dict[str, Any]
    ) -> list[Value]:
        name, params = eqn.primitive.name, eqn.params
        if name in ("scan", "while", "cond"):
            node = getattr(self, f"_{name}")(eqn, operands, scope, axes)
            nodes.append(node)
            return node.outputs
        if name == "custom_linear_solve":
            inner, given = _solver(params, operands)
            return self.inlined(inner.jaxpr, inner.consts, given, nodes, scope, axes)
        inner = next((params[key] for key in CALLS if key in params), None)
        if name in INLINED and inner is not None:
            called = params.get("name")
            deeper = f"{scope}/{called}".strip("/") if isinstance(called, str) and called not in self._plain else scope
            if name == "shard_map":
                return self._sharded(eqn, inner, operands, nodes, deeper, axes)
            consts = getattr(inner, "consts", ())
            # Donation is said at the call and belongs to the arguments of the whole function.
            for value, given in zip(operands, params.get("donated_invars", ()), strict=False):
                value.donated = value.donated or (given and value.node is None)
            first = len(nodes)
            results = self.inlined(getattr(inner, "jaxpr", inner), consts, operands, nodes, deeper, axes)
            # A call of element-wise work alone is one operator of a framework.
            if all(node.is_view or node.known or kind_of(node) in (*LIGHT, "free") for node in nodes[first:]):
                operator = object()
                for node in nodes[first:]:
                    node.operator = operator
            return results
        if (inner is not None or "branches" in params) and not is_known(name):
            raise refusal(name)
        if name == "reduce":
            params = params | {"axes": params["dimensions"]}
        # psum over an axis that vmap has made a dimension is a plain sum.
        if name in _OVER_AXES and all(isinstance(axis, int) for axis in params["axes"]):
            name = _OVER_AXES[name]  # of an axis that vmap has made one of the array
        node = Node(name, params | ({"mesh": axes} if axes else {}), operands, [], scope)
        node.outputs = [Value(var.aval.shape, var.aval.dtype, node) for var in eqn.outvars]
        # What depends on constants alone is computed once, before the function runs; random draws are not.
        node.known = all(value.known for value in operands) and not name.startswith(DRAWN) and "axis_name" not in params
        nodes.append(node)
        return node.outputs

    def _sharded(
        self, eqn: Any, inner: Any, operands: list[Value], nodes: list[Node], scope: str, axes: dict[str, Any]
    ) -> list[Value]:
        """The function that every device runs on its part of the operands."""
        mesh, stride, own = eqn.params["mesh"], 1, dict(axes)
        # Row-major mesh: the last axis has neighbouring devices.
        for axis, size in reversed(list(mesh.shape.items())):
            own[axis] = (size, stride)
            stride *= size
        jaxpr = getattr(inner, "jaxpr", inner)
        parts = [_view("local_part", value, var.aval, nodes) for value, var in zip(operands, jaxpr.invars, strict=True)]
        results = self.inlined(jaxpr, getattr(inner, "consts", ()), parts, nodes, scope, own)
        return [_view("local_part", value, var.aval, nodes) for value, var in zip(results, eqn.outvars, strict=True)]

    def _region(
        self, closed: Any, inputs: list[Value], scope: str, axes: dict[str, Any], slices: dict[int, Value]
    ) -> Region:
        """A loop's body: `slices` says which inputs are one entry of an array outside."""
        nodes: list[Node] = []
        taken = [
            _view("loop_slice", slices[i], value, nodes) if i in slices else value for i, value in enumerate(inputs)
        ]
        outputs = self.inlined(closed.jaxpr, closed.consts, taken, nodes, scope, axes)
        return without_dead_nodes(Region(taken, outputs, nodes))

    def _scan(self, eqn: Any, operands: list[Value], scope: str, axes: dict[str, Any]) -> Node:
        params, body = eqn.params, eqn.params["jaxpr"]
        constants, carried = _scan_parts(params)
        inputs = operands[:constants] + [
            Value(var.aval.shape, var.aval.dtype, name=CARRY) for var in body.jaxpr.invars[constants:]
        ]
        # Arrays that a scan reads slice by slice are views of those outside.
        slices = dict(list(enumerate(operands))[carried:])
        region = self._region(body, inputs, scope, axes, slices)
        return _loop("scan", eqn, operands, scope, [(region, params["length"])])

    def _while(self, eqn: Any, operands: list[Value], scope: str, axes: dict[str, Any]) -> Node:
        params, constants = eqn.params, eqn.params["cond_nconsts"]
        inner = operands[constants : constants + params["body_nconsts"]]
        first = operands[constants + params["body_nconsts"] :]
        # A counter says the trips exactly, a bound says them at most, and else the caller has to.
        counter = counter_of(params, operands[:constants], inner, first)
        trips = self._trips if counter is None else counter[1]
        most = bound_of(params, operands[:constants], inner, first) if trips is None else None
        if trips is None and most is None:
            raise ValueError(
                f"a while loop{f' in {scope}' if scope else ''} does not say how often it runs: give trips=N"
            )
        carried = [Value(value.shape, value.dtype, name=CARRY) for value in first]
        body = self._region(params["body_jaxpr"], inner + carried, scope, axes, {})
        body = body if counter is None else without_counting(body, carried, counter[0])
        node = _loop("while", eqn, operands, scope, [(body, most if trips is None else trips)])
        node.params = {} if most is None else {"most": most}
        return node

    def _cond(self, eqn: Any, operands: list[Value], scope: str, axes: dict[str, Any]) -> Node:
        branches = [self._region(branch, operands[1:], scope, axes, {}) for branch in eqn.params["branches"]]
        return _loop("cond", eqn, operands, scope, [(branch, 1) for branch in branches])


_PLAIN = (
    *("_where", "silu", "relu", "gelu", "clip", "tril", "triu", "_einsum", "softmax", "_reduce_max", "_take", "_pad"),
    *("softplus", "logsumexp", "_roll_static", "_one_hot"),
    "call",  # of a function of a module of StableHLO
)
"""Library functions whose names say nothing about where in a model they are called."""


def _scan_parts(params: dict[str, Any]) -> tuple[int, int]:
    """Where, among the operands of a scan, what it carries begins, and the arrays that it reads slice by slice."""
    if "ft_in" in params:  # from jax 0.11
        constants, carry, _ = map(len, params["ft_in"].unpack())
    else:
        constants, carry = params["num_consts"], params["num_carry"]
    return constants, constants + carry


def _solver(params: dict[str, Any], operands: list[Value]) -> tuple[Any, list[Value]]:
    """What a linear solve runs, and its operands: constants of the solver, then right-hand sides."""
    lengths = params["const_lengths"]
    begin = lengths.matvec + lengths.vecmat
    return params["jaxprs"].solve, operands[begin : begin + lengths.solve] + operands[sum(lengths) :]


_OVER_AXES = {"psum": "reduce_sum", "pmax": "reduce_max", "pmin": "reduce_min"}
"""Collective -> the reduction that it is over axes of an array."""


def _loop(name: str, eqn: Any, operands: list[Value], scope: str, bodies: list[tuple[Region, Any]]) -> Node:
    node = Node(name, {}, operands, [], scope, bodies)
    node.outputs = [Value(var.aval.shape, var.aval.dtype, node) for var in eqn.outvars]
    return node


def _view(name: str, value: Value, like: Any, nodes: list[Node]) -> Value:
    node = Node(name, {}, [value], [], known=value.known)
    node.outputs = [Value(like.shape, like.dtype, node)]
    nodes.append(node)
    return node.outputs[0]
