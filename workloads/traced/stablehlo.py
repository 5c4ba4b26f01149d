"""A model in StableHLO, as JAX, torch_xla and others write it, as a function of JAX arrays that can be traced.

The module is read by the parser that JAX ships, and every operation becomes the JAX primitive that it stands for, so
that one set of rules says the work of both. What StableHLO loses stays lost: a `scan` is a `while` that counts, names
of scopes are there only where the text has locations, sizes have no symbols.
"""

import contextlib
import functools
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from jax.interpreters.mlir import make_ir_context
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo as dialect

from hwspaces.files import document
from jaxroof.numerics.arrays import jax
from workloads.traced.function import Traced, traced
from workloads.traced.stablehlo_ops import ELEMENTWISE, OPERATIONS, REGIONS, array_of, is_stored, made

LARGEST = 1 << 29
"""B of a file at most."""

DEEPEST = 256
"""Brackets inside each other in a module's text."""

_SKIPPED = re.compile(rb'"(?:[^"\\]|\\.)*+"|//[^\n]*+|->|[<>]=', re.DOTALL)
"""Texts, comments, and arrows, which are no brackets."""

MOST_OPERATIONS = 200_000
"""Operations that are read at most, those of a function as often as it is called."""

WRONG = (TypeError, KeyError, AttributeError, NotImplementedError, IndexError, OverflowError, ZeroDivisionError)
"""What JAX raises of operands that an operation does not take, beside ValueError."""

BYTECODE = b"ML\xefR"
"""First bytes of a module in bytecode."""

KNOWN = OPERATIONS | REGIONS
"""Operation without its dialect -> what it does."""

SAME = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement", "LayoutConstraint"}
"""Custom calls whose result is their operand."""

MESSAGES = {
    *("all_reduce", "all_gather", "all_to_all", "reduce_scatter", "collective_permute", "collective_broadcast"),
    *("send", "recv", "partition_id", "replica_id", "manual_computation"),
}
"""Operations of several devices."""


def traced_module(path: str | os.PathLike[str], trips: float | None = None, **options: Any) -> Traced:
    """The kernels of the function `main` of a file of StableHLO.

    Args:
      path: text, or bytecode of a portable artifact.
      trips: how often loops run that do not say so.
      options: policy, fused_loops, as `workloads.traced.function.traced` takes them.

    Raises:
      ValueError: one line, for a file that is no module, an operation that nothing is known of, a loop without trips.
    """
    # 64-bit types stay as the module has them; JAX would narrow them otherwise.
    with _module(path) as module, jax.enable_x64(True):
        reader = _Reader(module)
        # Stored weights are arguments: folded as constants they would count as known values.
        constants = list(reader.stored())

        def main(arguments: list[Any], stored: list[Any]) -> list[Any]:
            return reader.main(arguments, dict(zip(constants, stored, strict=True)))

        arguments, stored = map(array_of, reader.function("main").arguments), map(array_of, constants)
        name = os.path.splitext(os.path.basename(os.fspath(path)))[0]
        return traced(main, list(arguments), list(stored), trips=trips, name=name, **options)


@contextlib.contextmanager
def _module(path: str | os.PathLike[str]) -> Iterator[Any]:
    """The module of a file; ValueError in one line that names the file, also of what is done with the module."""
    if document.require_file(path, sys.maxsize) > LARGEST:
        raise ValueError(f"{os.fspath(path)} is larger than {LARGEST >> 20} MiB: leave weights out, as arguments")
    try:
        content = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise ValueError(f"{os.fspath(path)}: {error.strerror}") from None
    # The parser is recursive in C++: too deep a text would end the process.
    if not content.startswith(BYTECODE) and depth(content) > DEEPEST:
        raise ValueError(f"{os.fspath(path)}: more than {DEEPEST} regions and brackets are inside each other")
    with make_ir_context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        context.attach_diagnostic_handler(lambda diagnostic: True)  # else it prints what it raises
        try:
            if content.startswith(BYTECODE):
                module = dialect.deserialize_portable_artifact(context, content)
            else:
                module = ir.Module.parse(content.decode())
        except (ir.MLIRError, UnicodeDecodeError, ValueError, RuntimeError) as error:
            words = " ".join(str(error).partition("\n note")[0].split())[:200]
            raise ValueError(f"{os.fspath(path)} is no module of StableHLO: {words}") from None
        try:
            yield module
        except ValueError as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error
        except RecursionError:
            deep = "functions and regions are inside each other more deeply than JAX can trace them"
            raise ValueError(f"{os.fspath(path)}: {deep}") from None


def depth(content: bytes) -> int:
    """Brackets inside each other in a module's text, those of texts and comments left out.

    The parser calls itself for each, and ends the process where its stack is full.
    """
    bare = _SKIPPED.sub(b"", content)
    steps = np.zeros(256, np.int8)
    # +1 and -1 for brackets: their running sum is the depth, in chunks to bound memory.
    steps[list(b"([{<")], steps[list(b")]}>")] = 1, -1
    deepest = at = 0
    for start in range(0, len(bare), 1 << 20):
        inside = at + np.cumsum(steps[np.frombuffer(bare[start : start + (1 << 20)], np.uint8)], dtype=np.int64)
        deepest, at = max(deepest, int(inside.max())), int(inside[-1])
    return deepest


class _Reader:
    """Runs the functions of a module on what JAX traces."""

    def __init__(self, module: Any):
        functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
        self._functions = {op.attributes["sym_name"].value: op for op in functions}
        self._stored: dict[Any, Any] = {}
        self._running: list[str] = []
        self._operations = 0
        self._calls: dict[str, Any] = {}

    def function(self, name: str) -> Any:
        """The body of a function by its name; ValueError in one line where there is none."""
        if name not in self._functions:
            raise ValueError(f"the module has no function {name}; it has {', '.join(self._functions) or 'none'}")
        blocks = self._functions[name].regions[0].blocks
        if not len(blocks):
            raise ValueError(f"the function {name} has no body")
        return blocks[0]

    def stored(self) -> Iterator[Any]:
        """Constants that are read from memory: they are arguments of what is traced."""
        waiting = list(self._functions.values())
        while waiting:
            op = waiting.pop()
            if is_stored(op):
                yield op.results[0]
            blocks = (block for region in op.regions for block in region.blocks)
            waiting += [inner.operation for block in blocks for inner in block.operations]

    def main(self, arguments: list[Any], stored: dict[Any, Any]) -> list[Any]:
        """Results of the function `main`, where constants of `stored` have these values."""
        self._stored = stored
        return self._called("main", arguments)

    def _called(self, name: str, arguments: list[Any]) -> list[Any]:
        self._running.append(name)
        results = self._block(self.function(name), arguments, self._stored)
        self._running.pop()
        return results

    def _call(self, name: str) -> Callable[..., list[Any]]:
        """A function of the module by its name, which JAX traces once for all its calls."""
        # The traced call is cached, so a cycle would never end.
        if name in self._running:
            raise ValueError(f"the function {name} calls itself")
        if name not in self._calls:

            def call(*given: Any) -> Any:
                return self._called(name, list(given))

            # jit keeps the call as one node: the policy `operators` makes a kernel of it.
            self._calls[name] = jax.jit(call)
        return self._calls[name]

    def _block(self, block: Any, arguments: list[Any], outer: dict[Any, Any]) -> list[Any]:
        """What a block returns; `outer` has the values of the blocks around it."""
        values = outer | dict(zip(block.arguments, arguments, strict=True))
        for each in block.operations:
            op = each.operation
            operands = [values[value] for value in op.operands]
            self._operations += 1
            if self._operations > MOST_OPERATIONS:
                raise ValueError(f"the module runs more than {MOST_OPERATIONS:,} operations, loops counted once")
            if op.name.endswith(".return"):
                return operands
            # Constants that are stored have been given as arguments.
            if all(result in values for result in op.results) and op.results:
                continue  # a constant that is stored
            try:
                with _scope(op):
                    results = self._results(op, operands, values)
            except WRONG as error:
                words = " ".join(str(error).split())[:200]
                raise ValueError(f"{op.name} cannot be read: {type(error).__name__}: {words}") from error
            values.update(zip(op.results, results, strict=True))
        raise ValueError("a function of the module returns nothing")

    def _results(self, op: Any, operands: list[Any], values: dict[Any, Any]) -> list[Any]:
        name = op.name.partition(".")[2]
        if op.name.startswith("chlo."):
            name = name.removeprefix("broadcast_")
        if name == "tuple":
            return [tuple(operands)]
        if name == "get_tuple_element":
            return [operands[0][int(op.attributes["index"])]]
        if name == "while":
            return self._while(op, operands, values)
        if name in ("if", "case"):
            branches = [functools.partial(self._block, region.blocks[0], [], values) for region in op.regions]
            return jax.lax.cond(operands[0], *branches) if name == "if" else jax.lax.switch(operands[0], branches)
        if name in ("call", "composite"):
            callee = op.attributes["callee" if name == "call" else "decomposition"].value

            return self._call(callee)(*operands)  # kept as a call: under `operators` it is one kernel
        if name == "custom_call":
            target = op.attributes["call_target_name"].value
            if target in SAME:
                return operands[:1]
            raise ValueError(f"nothing is known of the custom call {target}")
        if name in MESSAGES:
            raise ValueError(f"{op.name}: messages are not read from StableHLO; price the function under shard_map")
        if name in ELEMENTWISE:
            return [ELEMENTWISE[name](*(_broadcast(each, made(op).shape) for each in operands))]
        if name not in KNOWN:
            raise ValueError(f"nothing is known of the operation {op.name}")
        results = KNOWN[name](op, *operands)
        return results if isinstance(results, list) else [results]

    def _while(self, op: Any, operands: list[Any], values: dict[Any, Any]) -> list[Any]:
        """A loop; what its body returns as it came is no part of what it carries."""
        test, body = (region.blocks[0] for region in op.regions)
        *_, last = body.operations
        # Loop invariants are not carried: what a body returns as it came stays outside.
        carried_places = [place for place, value in enumerate(last.operands) if value != body.arguments[place]]

        def given(carried: list[Any]) -> list[Any]:
            arguments = list(operands)
            for place, value in zip(carried_places, carried, strict=True):
                arguments[place] = value
            return arguments

        def after(carried: list[Any]) -> list[Any]:
            results = self._block(body, given(carried), values)
            return [results[place] for place in carried_places]

        start = [operands[place] for place in carried_places]
        return given(jax.lax.while_loop(lambda carried: self._block(test, given(carried), values)[0], after, start))


def _broadcast(value: Any, shape: tuple[int, ...]) -> Any:
    """A value in a shape that it is broadcast to, its axes the last ones."""
    own = jax.numpy.shape(value)
    return value if own == shape else jax.lax.broadcast_in_dim(value, shape, range(len(shape) - len(own), len(shape)))


_NAMED = re.compile(r'loc\("([^"]*)"\(')
_CALL = re.compile(r"^p?jit\(.*\)$|^main$|^closed_call$|^<unnamed.*>$")


def _scope(op: Any) -> contextlib.AbstractContextManager[Any]:
    """The scope of an operation whose location names one, without calls of `jit` and the operation itself."""
    match = _NAMED.match(str(op.location))
    parts = [part for part in match[1].split("/")[:-1] if not _CALL.match(part)] if match else []
    return jax.named_scope("/".join(parts)) if parts else contextlib.nullcontext()
