"""LLVM's text of loops over a graph: several points at a time in the lanes of vectors, along the innermost axis."""

import struct

from sweeps.run.native.functions import OWN, declarations, text
from sweeps.run.native.graph import Graph
from sweeps.run.native.nests import Dims, Nest, exact, products

# `contract` lets LLVM fuse a product and a sum into one instruction (LLVM Language Reference, fast-math flags).
PLAIN = {"add": "fadd contract", "sub": "fsub contract", "mul": "fmul contract", "div": "fdiv contract"}
WHOLE = {"add": "add", "sub": "sub", "mul": "mul", "div": "sdiv", "rem": "srem"}
# Ordered comparisons are false where an operand is NaN and `une` is true there, as in IEEE 754.
FLOAT_ORDER = {"lt": "fcmp olt", "le": "fcmp ole", "eq": "fcmp oeq", "ne": "fcmp une"}
WHOLE_ORDER = {"lt": "icmp slt", "le": "icmp sle", "eq": "icmp eq", "ne": "icmp ne"}
INTRINSICS = {
    "abs": "fabs",
    "round": "rint",
    **{name: name for name in ("sqrt", "exp", "log", "floor", "ceil", "pow")},
}
STORED = {"f": None, "i": "i32", "b": "i8"}
"""Types of stored values by kind of node; a float's is the sweep's."""

# Processors recognise a limited number of streams by themselves; beyond that, prefetch instructions help.
STREAMS, AHEAD = 16, 64
"""Arrays that a loop reads from which on it asks for their lines ahead, and how many points ahead."""


def module(graph: Graph, dims: list[Dims], nests: list[Nest], lanes: int, slots: dict[int, int]) -> str:
    """Functions `nest0`, `nest1`...: of a table of arrays by slot, and of the lengths of all axes.

    Args:
      lanes: points of a vector.
      slots: places in the table of everything that is read or written.
    """
    used: set[str] = set()
    exact_nodes = exact(graph)
    bodies = [
        _Function(graph, dims, nest, lanes, slots, used, products(graph, nest, dims, exact_nodes)).text(f"nest{number}")
        for number, nest in enumerate(nests)
    ]
    return "\n".join([*sorted(used), *bodies])


class _Function:
    """One nest as a function."""

    def __init__(
        self,
        graph: Graph,
        dims: list[Dims],
        nest: Nest,
        lanes: int,
        slots: dict[int, int],
        used: set[str],
        products: frozenset[int],
    ):
        self.graph, self.dims, self.nest, self.slots, self.used = graph, dims, nest, slots, used
        self.products, self.divisors = products, {graph.arguments[node][1] for node in products}
        self.reciprocals: dict[int, str] = {}
        # A nest without axes computes single values, for which vectors are of no use.
        self.lanes = lanes if nest.dims else 1
        self.float = "float" if graph.dtype.itemsize == 4 else "double"
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.offsets: dict[Dims, str] = {}
        self.at: dict[Dims, str] = {}
        self.count = 0

    def text(self, name: str) -> str:
        """The function's text. Whatever an outer axis settles is loaded once for each of its positions."""
        nest = self.nest
        self.lines = [f"define void @{name}(ptr noalias %table, ptr noalias %lengths) {{", "entry:"]
        # The table of lengths has two numbers per axis: its positions, and those of a row filled up to a vector.
        for axis in nest.dims:
            for size, place in (("length", 2 * axis), ("row", 2 * axis + 1)):
                self._line(f"%{size}{axis}.at = getelementptr i64, ptr %lengths, i64 {place}")
                self._line(f"%{size}{axis} = load i64, ptr %{size}{axis}.at")
        # Arrays are found by their slot, so that a call may use other arrays than the one before.
        for node in (*nest.reads, *nest.writes):
            slot = self.slots[node]
            self._line(f"%slot{slot} = getelementptr ptr, ptr %table, i64 {slot}")
            self._line(f"%array{slot} = load ptr, ptr %slot{slot}")
        # Values without axes are loaded before the first loop.
        self._settled(None)
        # Each loop's phi takes its first position from the block before it.
        block = "entry"
        for axis in nest.dims[:-1]:
            self._line(f"br label %head{axis}")
            self.lines.append(f"head{axis}:")
            self._line(f"%i{axis} = phi i64 [ 0, %{block} ], [ %next{axis}, %end{axis} ]")
            block = f"head{axis}"
            self._settled(axis)
        # The innermost loop is a loop over vectors.
        self._row(block)
        for axis in reversed(nest.dims[:-1]):
            self._line(f"br label %end{axis}")
            self.lines.append(f"end{axis}:")
            self._line(f"%next{axis} = add i64 %i{axis}, 1")
            self._end(axis, "length")
        self.lines += ["ret void", "}"]
        return "\n".join(self.lines)

    def _end(self, axis: int, size: str) -> None:
        """Back to the next position of an axis while there is one."""
        self._line(f"%more{axis} = icmp ult i64 %next{axis}, %{size}{axis}")
        self._line(f"br i1 %more{axis}, label %head{axis}, label %after{axis}")
        self.lines.append(f"after{axis}:")

    def _settled(self, axis: int | None) -> None:
        """What the position of one more outer axis settles: offsets, and values that vary along no further axis."""
        for dims in dict.fromkeys(self.dims[node] for node in (*self.nest.reads, *self.nest.writes)):
            if axis in dims:
                self.offsets[dims] = self._offset(dims, axis)
        for node in self.nest.reads:
            # A value is loaded where the last of its axes is settled; no axis stands for single values.
            if self.dims[node][-1:] == (() if axis is None else (axis,)):
                self.names[node] = self._spread(self._loaded(node, self.offsets.get(self.dims[node], "0"), 1), node)
                if node in self.divisors:
                    self._reciprocal(node)

    def _offset(self, dims: Dims, axis: int) -> str:
        """Where an array over `dims` has the current position of `axis`, or the row that begins there."""
        position = f"%i{axis}"
        # Row-major order: (outer offset) * length + position.
        if axis != dims[0]:
            size = "row" if axis == dims[-1] else "length"  # rows may be longer than their axis
            scaled = self._assigned(f"mul i64 {self.offsets[dims]}, %{size}{axis}")
            position = self._assigned(f"add i64 {scaled}, {position}")
        inner = self.nest.dims[-1]
        # Once the next axis outside of the innermost is settled, the offset counts values instead of rows.
        if dims[-1] == inner and axis == dims[-2]:
            position = self._assigned(f"mul i64 {position}, %row{inner}")
        return position

    def _row(self, block: str) -> None:
        """What varies along the innermost axis, several positions at a time; the last ones may be computed twice."""
        nest = self.nest
        written = frozenset(nest.writes)
        if nest.dims:
            axis = nest.dims[-1]
            # The last vector of a row is moved back to end with the row: nothing is written beyond it.
            self._line(f"%last{axis} = sub i64 %row{axis}, {self.lanes}")
            self._line(f"br label %head{axis}")
            self.lines.append(f"head{axis}:")
            self._line(f"%from{axis} = phi i64 [ 0, %{block} ], [ %next{axis}, %head{axis} ]")
            self._line(f"%over{axis} = icmp ugt i64 %from{axis}, %last{axis}")
            self._line(f"%i{axis} = select i1 %over{axis}, i64 %last{axis}, i64 %from{axis}")
            # The position in each array that reads or writes along the innermost axis.
            for dims in dict.fromkeys(self.dims[node] for node in (*nest.reads, *nest.writes)):
                if dims[-1:] == (axis,):
                    row = self.offsets.get(dims)
                    self.at[dims] = f"%i{axis}" if row is None else self._assigned(f"add i64 {row}, %i{axis}")
        for node in nest.nodes:
            self.names[node] = self._computed(node)
            if node in written:
                self._store(node, self.at.get(self.dims[node], "0"))
        if nest.dims:
            self._line(f"%next{axis} = add i64 %from{axis}, {self.lanes}")
            self._end(axis, "row")

    def _type(self, kind: str, lanes: int | None = None) -> str:
        element = {"f": self.float, "i": "i32", "b": "i1"}[kind]
        return self._of(element, self.lanes if lanes is None else lanes)

    def _of(self, element: str, lanes: int) -> str:
        return element if lanes == 1 else f"<{lanes} x {element}>"

    def _stored(self, node: int) -> str:
        return STORED[self.graph.kinds[node]] or self.float

    def _loaded(self, node: int, offset: str, lanes: int) -> str:
        stored = self._stored(node)
        at = self._assigned(f"getelementptr {stored}, ptr %array{self.slots[node]}, i64 {offset}")
        # Alignment is that of one element, since a chunk may begin anywhere in a column.
        size = self.graph.dtype.itemsize if stored == self.float else int(stored[1:]) // 8
        return self._assigned(f"load {self._of(stored, lanes)}, ptr {at}, align {size}")

    def _fetched_ahead(self, node: int) -> None:
        """Bring what a later turn of a loop loads into the cache: of few streams processors do so themselves."""
        if len(self.nest.reads) <= STREAMS:
            return
        # An address beyond the array is harmless: a prefetch raises no fault.
        offset = self._assigned(f"add i64 {self.at[self.dims[node]]}, {AHEAD}")
        at = self._assigned(f"getelementptr {self._stored(node)}, ptr %array{self.slots[node]}, i64 {offset}")
        self.used.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        # Arguments: read, into the second level on, data: so many lines would push each other out of the first.
        self._line(f"call void @llvm.prefetch.p0(ptr {at}, i32 0, i32 2, i32 1)")

    def _truth(self, value: str, node: int, lanes: int | None = None) -> str:
        if self.graph.kinds[node] != "b":
            return value
        # Truth values are bytes in memory and single bits in registers.
        return self._assigned(
            f"trunc {self._of('i8', self.lanes if lanes is None else lanes)} {value} to {self._type('b', lanes)}"
        )

    def _spread(self, value: str, node: int) -> str:
        """A single value in all lanes."""
        value = self._truth(value, node, 1)
        if self.lanes == 1:
            return value
        kind = self.graph.kinds[node]
        vector = self._type(kind)
        # The value goes to lane 0, from which the shuffle copies it to all lanes.
        first = self._assigned(f"insertelement {vector} poison, {self._type(kind, 1)} {value}, i64 0")
        return self._assigned(f"shufflevector {vector} {first}, {vector} poison, <{self.lanes} x i32> zeroinitializer")

    def _store(self, node: int, offset: str) -> None:
        stored, value = self._of(self._stored(node), self.lanes), self.names[node]
        if self.graph.kinds[node] == "b":
            value = self._assigned(f"zext {self._type('b')} {value} to {stored}")
        at = self._assigned(f"getelementptr {self._stored(node)}, ptr %array{self.slots[node]}, i64 {offset}")
        size = self.graph.dtype.itemsize if self.graph.kinds[node] == "f" else 1
        self._line(f"store {stored} {value}, ptr {at}, align {size}")

    def _operand(self, node: int) -> str:
        if self.graph.operations[node] != "number":
            if node not in self.names:  # loaded where it is first used, so that it need not be kept in between
                self.names[node] = self._truth(self._loaded(node, self.at[self.dims[node]], self.lanes), node)
                self._fetched_ahead(node)
            return self.names[node]
        value, kind = self.graph.value(node), self.graph.kinds[node]
        text = self._float(value) if kind == "f" else str(int(value)) if kind == "i" else str(bool(value)).lower()
        return self._splat(text, kind)

    def _splat(self, text: str, kind: str) -> str:
        """A constant in all lanes."""
        return text if self.lanes == 1 else f"splat ({self._type(kind, 1)} {text})"

    def _reciprocal(self, node: int) -> str:
        """1 over a node, worked out once."""
        if node not in self.reciprocals:
            form = self._type("f")
            one = self._splat(self._float(1.0), "f")
            self.reciprocals[node] = self._assigned(f"fdiv {form} {one}, {self._operand(node)}")
        return self.reciprocals[node]

    @staticmethod
    def _float(value: float) -> str:
        # LLVM takes the bits of a double for a constant of either precision, which loses no digit.
        return f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"

    def _computed(self, node: int) -> str:
        graph = self.graph
        operation, arguments = graph.operations[node], graph.arguments[node]
        kind = graph.kinds[arguments[-1]]
        form = self._type(kind)
        # A product with the reciprocal, which is computed once and used for several quotients.
        if node in self.products:
            return self._assigned(
                f"fmul contract {form} {self._operand(arguments[0])}, {self._reciprocal(arguments[1])}"
            )
        values = [self._operand(argument) for argument in arguments]
        if operation == "select":
            condition = f"{self._type('b')} {values[0]}"
            return self._assigned(f"select {condition}, {form} {values[2]}, {form} {values[1]}")
        if operation in ("float", "whole"):
            source, target = self._type(graph.kinds[arguments[0]]), self._type(graph.kinds[node])
            how = "fptosi" if operation == "whole" else "sitofp"
            # A truth value is an unsigned bit: as a signed one, true would be -1.
            if graph.kinds[arguments[0]] == "b":
                how = "uitofp" if operation == "float" else "zext"
            return self._assigned(f"{how} {source} {values[0]} to {target}")
        if operation in FLOAT_ORDER:
            order = FLOAT_ORDER if kind == "f" else WHOLE_ORDER
            if kind == "b":
                order = {"eq": "icmp eq", "ne": "icmp ne"}
            return self._assigned(f"{order[operation]} {form} {values[0]}, {values[1]}")
        if operation in ("and", "or", "xor"):
            return self._assigned(f"{operation} {form} {values[0]}, {values[1]}")
        if operation == "not":
            return self._assigned(f"xor {form} {values[0]}, {'true' if self.lanes == 1 else 'splat (i1 true)'}")
        if operation in ("max", "min"):
            return self._extreme(operation, kind, form, arguments, values)
        if kind == "i":
            return self._whole(operation, form, values)
        return self._of_floats(operation, form, values)

    def _extreme(self, operation: str, kind: str, form: str, arguments: tuple[int, ...], values: list[str]) -> str:
        """The larger or smaller of two; of floats NaN if either is."""
        if kind == "i":
            order = "sgt" if operation == "max" else "slt"
            better = self._assigned(f"icmp {order} {form} {values[0]}, {values[1]}")
            return self._assigned(f"select {self._type('b')} {better}, {form} {values[0]}, {form} {values[1]}")
        if self.graph.operations[arguments[1]] == "number":
            values = values[::-1]  # a constant first: the second is taken where the comparison fails
        order = "ogt" if operation == "max" else "olt"
        better = self._assigned(f"fcmp {order} {form} {values[0]}, {values[1]}")
        extreme = self._assigned(f"select {self._type('b')} {better}, {form} {values[0]}, {form} {values[1]}")
        if any(self.graph.operations[argument] == "number" for argument in arguments):
            return extreme
        # A comparison with NaN fails, which takes the second operand: NaN in the first needs a test of its own.
        known = self._assigned(f"fcmp ord {form} {values[0]}, {values[0]}")
        return self._assigned(f"select {self._type('b')} {known}, {form} {extreme}, {form} {values[0]}")

    def _whole(self, operation: str, form: str, values: list[str]) -> str:
        if operation == "neg":
            return self._assigned(f"sub {form} {'0' if self.lanes == 1 else 'zeroinitializer'}, {values[0]}")
        return self._assigned(f"{WHOLE[operation]} {form} {values[0]}, {values[1]}")

    def _of_floats(self, operation: str, form: str, values: list[str]) -> str:
        if operation in PLAIN:
            return self._assigned(f"{PLAIN[operation]} {form} {values[0]}, {values[1]}")
        if operation == "neg":
            return self._assigned(f"fneg {form} {values[0]}")
        if operation == "rem":
            # x - trunc(x / y) * y, the remainder of C's fmod; the fused product rounds once.
            quotient = self._assigned(f"fdiv {form} {values[0]}, {values[1]}")
            truncated = self._called("trunc", form, [quotient])
            back = self._assigned(f"fneg {form} {truncated}")
            return self._called("fma", form, [back, values[1], values[0]])
        return self._called(INTRINSICS[operation], form, values)

    def _called(self, name: str, form: str, values: list[str]) -> str:
        # LLVM's names of intrinsics end with the type, such as v8f32.
        if self.lanes > 1 and name in OWN:
            self.used.update([*declarations(self.lanes), text(name, self.lanes, self.float)])
            return self._assigned(f"call {form} @own.{name}({', '.join(f'{form} {value}' for value in values)})")
        short = ("" if self.lanes == 1 else f"v{self.lanes}") + ("f32" if self.float == "float" else "f64")
        self.used.add(f"declare {form} @llvm.{name}.{short}({', '.join([form] * len(values))})")
        return self._assigned(f"call {form} @llvm.{name}.{short}({', '.join(f'{form} {value}' for value in values)})")

    def _assigned(self, right: str) -> str:
        name = self._new()
        self._line(f"{name} = {right}")
        return name

    def _new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def _line(self, text: str) -> None:
        self.lines.append("  " + text)
