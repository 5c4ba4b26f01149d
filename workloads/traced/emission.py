"""From the graph of a function to its kernels: regions, one after the other, and how often each runs."""

import math
import re
from typing import Any

from jaxroof.training.backward import OUTPUT_SUM_BYTES, QUERY_SUM_BYTES, ROW_SUM_FLOPS
from workloads.traced.attention import BACKWARD, TracedAttention
from workloads.traced.elementwise import REDUCTIONS
from workloads.traced.fusion import grouped
from workloads.traced.graph import Node, Region, dtype_name
from workloads.traced.groups import Group, Groups
from workloads.traced.kernels import DECODED_QUERIES, Amount, KernelRun, TracedKernel, is_narrow
from workloads.traced.memory import Peaks, moved, passed_on, stored, weights
from workloads.traced.products import Message, Product, asked, message_of, product_of, strictest
from workloads.traced.rules import LIGHT, REPEATED, RULES, SEQUENTIAL, kind_of, shape_work
from workloads.traced.sizes import Shape, Sizes, is_one


class Emission:
    """The kernels of a function under a policy, and its memory.

    Args:
      policy: one of `workloads.traced.fusion.POLICIES`.
      at: sizes to decide by.
      fused_loops: loops without matrix products run as one kernel, rather than kernel after kernel.
    """

    def __init__(self, policy: str, at: Sizes, fused_loops: bool = False):
        self._policy, self._at, self._fused_loops = policy, at, fused_loops
        self.kernels: list[TracedKernel] = []
        self.notes: set[str] = set()

    def region(self, region: Region, runs: Shape = ()) -> Peaks:
        """Add the kernels of a region that runs as often as the product of `runs`; return its peaks of memory."""
        # Fusion first, then kernels in an order in which they can run.
        groups = grouped(region, self._policy, self._at, self.notes)
        peaks = Peaks(region, groups)
        for group in groups.in_order():
            # Libraries have selective scans and the like as one kernel, which holds its state in registers.
            if group.kind == "loop" and self._fused_loops and _is_light(group.nodes[0], self._at):
                self.kernels.append(self._one_kernel(groups, group, runs))
                peaks.runs(group, None)
                continue
            # Bodies are emitted once, with the trips as a factor.
            inner = self._loop(group.nodes[0], runs) if group.kind == "loop" else None
            # A map without results that others read has been taken into its users.
            if group.kind not in ("loop", "free") and (group.kind != "map" or groups.writes(group)):
                self.kernels.append(self._kernel(groups, group, runs))
                if group.attention is not None and group.attention.products == BACKWARD:
                    # FlashAttention's gradient has kernels before and after it.
                    self.kernels.append(_row_sums(group.attention, self.kernels[-1], runs))
            peaks.runs(group, inner)
        return peaks

    def _loop(self, node: Node, runs: Shape) -> list[Peaks]:
        bodies = node.bodies
        if "most" in node.params:
            most = f"{node.params['most']:,.0f}"
            self.notes.add(f"a while loop counts as if it ran to its bound, {most} times: give trips=N")
        if node.name == "cond" and len(bodies) > 1:
            self.notes.add("of a cond the branch with most work is counted")
            # Branches of a cond are alternatives: the heaviest is a bound.
            bodies = [max(bodies, key=lambda body: self._weight(body[0]))]
        return [self.region(body, runs if is_one(trips) else (*runs, trips)) for body, trips in bodies]

    def _one_kernel(self, groups: Groups, group: Group, runs: Shape) -> TracedKernel:
        """A whole loop in one kernel: all of its work; what it reads and writes outside, and nothing in between."""
        (node,) = group.nodes
        vector, exps = Amount(), Amount()
        for body, trips in node.bodies:
            for inner in body.nodes:
                # A product with one vector has one result per row: a dot product, on vector units.
                if kind_of(inner) == "product":  # with one vector: a sum of products
                    product = product_of(inner)
                    vector.add((*product.rows, *product.inputs, trips), 2.0)
                elif kind_of(inner) in LIGHT and not inner.known:
                    shape, flops, special = shape_work(inner)
                    vector.add((*shape, trips), flops)
                    exps.add((*shape, trips), special)
        name = f"{node.scope}/{node.name}".strip("/")
        return TracedKernel(name, vector, exps, moved(groups, group), [], None, runs=[KernelRun(runs)])

    def _weight(self, region: Region) -> tuple[float, float]:
        """Matrix FLOP and B of a branch, to compare it by."""
        trial = Emission(self._policy, self._at, self._fused_loops)
        trial.region(region, ())
        ops = [kernel.op(self._at, ()) for kernel in trial.kernels]
        return (
            sum(float(op.count * (getattr(op, "matrix_flops", None) or 0.0)) for op in ops),
            sum(float(op.count * (getattr(op, "bytes", None) or 0.0)) for op in ops),
        )

    def _kernel(self, groups: Groups, group: Group, runs: Shape) -> TracedKernel:
        vector, exps, rules = Amount(), Amount(), []
        # Nodes that are computed again cost work here too; their results are not written.
        for node in (*group.nodes, *group.repeated):
            if node.name in RULES:
                rules.append(node)
                self.notes |= {_SAID[node.name].format(node.name)} if node.name in _SAID else set()
            elif kind_of(node) in LIGHT:
                shape, flops, special = shape_work(node)
                vector.add(shape, flops)
                exps.add(shape, special)
        product = group.product if group.kind == "product" else None
        core: Product | TracedAttention | Message | None = None
        dtype, weight, output = None, 0.0, 0.0
        if group.attention is not None:
            core, dtype = group.attention, group.attention.dtype
        elif product is not None:
            core = product_of(product)
            # Mixed operands are widened to the larger type before they are multiplied.
            dtype = max((value.dtype for value in product.inputs[:2]), key=lambda dtype: dtype.itemsize)
            weight, output = stored(group, core.right).bytes, _output_bytes(groups, group)
            if core.grouped:
                self.notes.add("rows of a grouped product are spread over its matrices at random, without preference")
        elif group.kind == "kernel" and group.nodes[0].inputs:
            dtypes = [value.dtype for value in group.nodes[0].inputs]
            # A custom kernel's precision is that of its first floating-point operand.
            dtype = next((dtype for dtype in dtypes if "float" in dtype_name(dtype)), dtypes[0])
        elif group.kind == "message":
            core = message_of(group.nodes[0])
        if isinstance(core, Message):
            amount = Amount()
            for value in core.buffers:
                amount.add(value.shape, value.bytes)
        else:
            amount = moved(groups, group)
        # a loop's body reads other weights in every trip
        stay = weights(groups, group, core.right) if isinstance(core, Product) and not runs else Amount()
        precision = strictest(asked(node) for node in group.nodes if kind_of(node) == "product")
        return TracedKernel(
            *(self._name(group, core), vector, exps, amount, rules, core, dtype, weight, output, precision),
            runs=[KernelRun(runs, passed_on(groups, group), stay)],
            floats=_floats(groups, group),
        )

    def _name(self, group: Group, core: Any) -> str:
        """Scope and kind of a kernel: "block/attention"."""
        node = group.product or group.nodes[-1]
        kind = _label(group, core, self._at)
        scope = readable(node.scope or next((one.scope for one in group.nodes if one.scope), ""))
        return f"{scope}/{kind}" if scope else kind


_WAITS = (
    "{}: its kernels wait for each other; their number is an assumption, not fitted to measurements: the time is good "
    "to a factor of a few"
)
_SAID = dict.fromkeys(SEQUENTIAL, _WAITS) | {
    "pallas_call": "{}: work is what its cost_estimate says, not what its code does"
}
"""Primitive -> a note on its work."""


def _row_sums(attention: TracedAttention, kernel: TracedKernel, runs: Shape) -> TracedKernel:
    """The kernels around fused attention's backward one, as one: `jaxroof.training.backward.attention_sums`."""
    vector, moved_bytes = Amount(), Amount()
    rows = (*attention.sequences, *attention.queries, *attention.heads)
    vector.add((*rows, *attention.value_width), ROW_SUM_FLOPS)
    moved_bytes.add((*rows, *attention.value_width), OUTPUT_SUM_BYTES)
    moved_bytes.add((*rows, *attention.key_width), QUERY_SUM_BYTES)
    return TracedKernel(
        f"{kernel.name}_row_sums", vector, Amount(), moved_bytes, [], None, launches=2.0, runs=[KernelRun(runs)]
    )


def _is_light(node: Node, at: Sizes) -> bool:
    """Whether a loop has nothing but element-wise work, reductions and products with one vector in it."""
    for body, _ in node.bodies:
        for inner in body.everything():
            kind = kind_of(inner)
            if kind == "product" and float(at.elements(product_of(inner).outputs)) == 1.0:
                continue
            if not (inner.is_view or inner.known or kind in (*LIGHT, "free")):
                return False
    return node.name != "cond"


_WRAPPED = re.compile(r"\b(?:jvp|vmap|transpose|checkpoint|remat|custom_jvp|custom_vjp)\(|\)")


def readable(scope: str) -> str:
    """Scopes as users named them: without transformations and specifications of einsums, which say whether a kernel is
    of the backward pass, or computed again.
    """
    own = [part for part in _WRAPPED.sub("", scope).split("/") if part and "->" not in part]
    again, back = any(part in REPEATED for part in own), "transpose(" in scope
    # transpose( marks a gradient, a checkpoint's scope what is computed again.
    own = [part for part in own if part not in REPEATED]
    return "/".join([*(["again"] if again else ["backward"] if back else []), *own])


def _label(group: Group, core: Any, at: Sizes) -> str:
    names = {node.name for node in group.nodes}
    if group.attention is not None:
        if group.attention.products > 2:
            return "attention_backward"
        queries, keys = at.elements(group.attention.queries), at.elements(group.attention.keys)
        # Few queries against many keys: decoding.
        return "decode_attention" if queries <= DECODED_QUERIES and keys > queries else "attention"
    if isinstance(core, Product):
        kind = "depthwise_convolution" if is_narrow(core) else "convolution" if core.window else "matmul"
        kind = "grouped_matmul" if core.grouped else kind
        return f"{kind}.{_factors(core.inputs)}x{_factors(core.outputs)}"
    if group.kind in ("message", "kernel"):
        return group.nodes[0].name
    if names & REDUCTIONS.keys():
        # Names of operations tell what a chain of them computes: a root after a sum is a norm.
        if names & {"rsqrt", "sqrt"}:
            return "norm"
        divided = names & {"div", "reduce_max", "integer_pow", "reciprocal"}  # else it is a sum of exponentials
        return "softmax" if {"exp", "reduce_sum"} <= names and divided else "reduction"
    if len(group.nodes) == 1:
        return group.nodes[0].name
    if "gather" in names:
        return "gather"
    return "activation" if names & {"tanh", "logistic", "erf", "erfc", "exp"} else "elementwise"


def _factors(shape: Shape) -> str:
    return str(math.prod(shape)).replace(" ", "")


def _floats(groups: Groups, group: Group) -> str:
    """The first type of floating point among what a group writes; "" where it writes none."""
    names = (dtype_name(value.dtype) for value in groups.writes(group))
    return next((name for name in names if "float" in name), "")


def _output_bytes(groups: Groups, group: Group) -> float:
    """B per element of the largest result."""
    values = groups.writes(group) or group.nodes[-1].outputs
    return max(values, key=groups.elements).bytes
