"""Equal work in C, beside a sweep: a question's operations as one loop over points, compiled by gcc -O3.

The loop is written from the graph that `sweeps.run.native` compiles, with every operation in it once, and reads the
same columns; what it computes is compared before it is timed.
"""

import concurrent.futures
import ctypes
import itertools
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable

import numpy as np

from sweeps.run.engine import Plan
from sweeps.run.native.graph import Graph
from sweeps.run.native.loops import Bound
from sweeps.run.native.nests import Nest

EXACT = ("-fno-finite-math-only", "-fno-reciprocal-math", "-fno-associative-math")
"""What -ffast-math must not take: infinities and NaN count, and a quotient is rounded up to whole tiles."""

FLAGS = ("-O3", "-march=native", "-ffast-math", *EXACT)
"""Of gcc."""

HEAD = """#include <math.h>
__attribute__((simd("notinbranch"))) float logf(float);
__attribute__((simd("notinbranch"))) float expf(float);
__attribute__((simd("notinbranch"))) float powf(float, float);
void loop(float *restrict *table, const long *points) {"""
"""Begin of every source; functions that have vector forms in the C library are said to, or nothing is vectorised."""

EXPRESSIONS = {
    **{name: f"({{0}} {sign} {{1}})" for name, sign in zip(("add", "sub", "mul", "div"), "+-*/", strict=True)},
    **{name: f"({{0}} {sign} {{1}})" for name, sign in (("lt", "<"), ("le", "<="), ("eq", "=="), ("ne", "!="))},
    **{name: f"({{0}} {sign} {{1}})" for name, sign in (("and", "&"), ("or", "|"), ("xor", "^"))},
    "max": "({0} > {1} ? {0} : {1})",
    "min": "({0} < {1} ? {0} : {1})",
    "select": "({0} ? {2} : {1})",
    "neg": "(-{0})",
    "not": "(!{0})",
    "rem": "fmodf({0}, {1})",
    "pow": "powf({0}, {1})",
    "abs": "fabsf({0})",
    "round": "rintf({0})",
    "float": "(float){0}",
    "whole": "(int){0}",
    **{name: f"{name}f({{0}})" for name in ("sqrt", "exp", "log", "floor", "ceil")},
}
"""C of every operation; comparisons that NaN fails take the second value, which the compared results never meet."""


def source(graph: Graph, nest: Nest, slots: dict[int, int]) -> str:
    """The loop as C: of a table of columns and the number of points."""
    lines = [HEAD]
    lines += [f"float *restrict a{node} = table[{slots[node]}];" for node in (*nest.reads, *nest.writes)]
    lines += ["#pragma GCC ivdep", "for (long i = 0; i < *points; i++) {"]
    lines += [f"float v{node} = a{node}[i];" for node in nest.reads]
    for node in nest.nodes:
        operands = [_operand(graph, one) for one in graph.arguments[node]]
        kind = "float" if graph.kinds[node] == "f" else "int"
        lines.append(f"{kind} v{node} = {EXPRESSIONS[graph.operations[node]].format(*operands)};")
    lines += [f"a{node}[i] = v{node};" for node in nest.writes]
    return "\n".join([*lines, "}", "}"])


def _operand(graph: Graph, node: int) -> str:
    if graph.operations[node] != "number":
        return f"v{node}"
    value = graph.value(node)
    if graph.kinds[node] != "f":
        return str(int(value))
    return "INFINITY" if np.isinf(value) else f"{float(value).hex()}f"


def rate(plan: Plan, repeats: int) -> float:
    """Points per second of the loop over a sample, a part of the points on each core, nothing else around it.

    Raises:
      ValueError: there is no gcc, the sweep is no sample, or the loop and the sweep disagree.
    """
    if shutil.which("gcc") is None:
        raise ValueError("there is no gcc")
    (block,) = plan._blocks
    given, loops = block.chunks._bound, block.program.loops
    if len(plan.axes) != 1:
        raise ValueError("the loop in C is of samples")
    (nest,) = (nest for nest in loops.nests if nest.dims)
    bound = Bound(loops, given.values, [plan.points])
    expected = bound([0])
    (state,) = bound.idle
    function = compiled(source(loops.graph, nest, loops.slots))
    outputs = {node: np.empty(plan.points, expected[node].dtype) for node in nest.writes}
    cores = os.cpu_count() or 1
    cuts = np.linspace(0, plan.points, cores + 1).astype(int).tolist()
    calls = []
    for low, high in itertools.pairwise(cuts):
        table = state.table.copy()
        for node in nest.reads:
            table[loops.slots[node]] += low * loops.graph.dtype.itemsize * bool(loops.dims[node])
        for node, array in outputs.items():
            table[loops.slots[node]] = array[low:].ctypes.data
        calls.append((table, np.array([high - low], np.int64)))
    seconds = []
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        for _ in range(repeats + 1):
            begun = time.perf_counter()
            list(pool.map(lambda call: function(call[0].ctypes.data, call[1].ctypes.data), calls))
            seconds.append(time.perf_counter() - begun)
    for node, values in outputs.items():
        # Rounding the last bit another way may round a number of tiles up to the next: a point in ten thousand.
        off = ~np.isclose(values, expected[node], rtol=2e-6, atol=0.0)
        if off.mean() > 1e-4 or not np.allclose(values, expected[node], rtol=1e-2, atol=0.0):
            raise ValueError("the loop in C and the sweep disagree")
    return plan.points / min(seconds[1:])


def compiled(text: str) -> Callable[[int, int], None]:
    """The function of a source."""
    with tempfile.TemporaryDirectory() as folder:
        file, code, library = (pathlib.Path(folder) / f"loop.{end}" for end in ("c", "o", "so"))
        file.write_text(text, encoding="utf-8")
        subprocess.run(["gcc", *FLAGS, "-fPIC", "-c", "-o", str(code), str(file)], check=True)
        # Linked without -ffast-math, with which the library would make the whole process round small numbers to 0.
        subprocess.run(["gcc", "-shared", "-o", str(library), str(code), "-lmvec", "-lm"], check=True)
        function = ctypes.CDLL(str(library)).loop
    function.argtypes, function.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    return function
