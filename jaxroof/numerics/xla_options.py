"""Options of XLA's compiler that the installed XLA knows: an unknown one ends a compilation, as a flag the process."""

import os
import signal
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from jaxroof.numerics.arrays import jax

Value = bool | int

UNKNOWN = "No such compile option"
"""In XLA's error."""

SECONDS = 5
"""In which XLA has read its flags."""


class XlaOptions(Mapping[str, Value]):
    """Options for programs on a CPU, by name: those that XLA knows, which is asked at the first use.

    Where programs run on other devices there are none.
    """

    def __init__(self, **wanted: Value):
        self.wanted = wanted
        self._known: dict[str, dict[str, Value]] = {}

    def __getitem__(self, name: str) -> Value:
        return self._here()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._here())

    def __len__(self) -> int:
        return len(self._here())

    def _here(self) -> dict[str, Value]:
        platform = jax.default_backend()
        if platform not in self._known:
            self._known[platform] = known(self.wanted) if platform == "cpu" else {}
        return self._known[platform]


QUICK = XlaOptions(
    xla_backend_optimization_level=0, xla_cpu_use_fusion_emitters=False, xla_cpu_parallel_codegen_split_count=1
)
"""XLA's options for programs that run for milliseconds: LLVM's optimisation would take longer than all the rest, and
the newer emitters of fused loops of jax 0.10 twice as long as its older ones; later releases have no older ones. To
split a program for several threads of LLVM takes a sixth of the time."""

LIGHT = XlaOptions(xla_backend_optimization_level=1, xla_cpu_use_fusion_emitters=False)
"""The same for loops that may run for seconds, as simulations do: LLVM's first level makes them as fast as its last
one, and is there in half the time."""

LASTING = XlaOptions(xla_backend_optimization_level=2, xla_cpu_use_fusion_emitters=False)
"""The same for loops over rows of a thousand numbers: LLVM's second level, which makes vectors of them, takes half a
second longer and saves a sixth of the run."""

ONE_KERNEL = {"xla_cpu_small_call": "true", "inlineable": "false"}
"""Marks of a call that XLA compiles to one kernel, and may not inline, as metadata of operations."""

QUICKLY = XlaOptions(xla_cpu_use_fusion_emitters=False)
"""XLA's options for programs of gradients: on a CPU they compile in half the time and run a little slower."""


def quick_options() -> dict[str, Value]:
    """Options for `jax.jit` under which programs compile in a third of the time and run up to three times as long.

    On a CPU, of costs, gradients and simulations that run for milliseconds; {} where programs run on other devices.
    Example: `jax.jit(jax.value_and_grad(function), compiler_options=jaxroof.quick_options())`.
    """
    return dict(QUICK)


def known(wanted: Mapping[str, Value]) -> dict[str, Value]:
    """The options that the installed XLA takes: a program of one addition is compiled with them.

    Raises:
      jax.errors.JaxRuntimeError: an option is known, and its value is refused.
    """
    if _taken(wanted):
        return dict(wanted)
    return {name: value for name, value in wanted.items() if _taken({name: value})}


def flags(wanted: Mapping[str, Value]) -> str:
    """The same options as words of XLA_FLAGS: those that XLA knows, which is asked in a process of its own."""
    words = [f"--{name}={str(value).lower()}" for name, value in wanted.items()]
    if refusal(" ".join(words)) is None:
        return " ".join(words)
    return " ".join(word for word in words if refusal(word) is None)


def refusal(words: str) -> str | None:
    """Why XLA ends the process that has these words in XLA_FLAGS; None where it takes them, or cannot be asked.

    To be asked before this process compiles: XLA reads its flags once.
    """
    from jaxlib import xla_client

    if not hasattr(xla_client, "CompileOptions") or not hasattr(os, "fork"):
        return None
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a second thread waits for signals, and holds no lock
        child = os.fork()
    if not child:
        try:
            os.dup2(writing, 2)
            signal.alarm(SECONDS)
            os.environ["XLA_FLAGS"] = words
            xla_client.CompileOptions()
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as said:
        lines = said.read().splitlines()
    if os.waitpid(child, 0)[1] and lines:
        return lines[0].partition("] ")[2] or lines[0]
    return None


def _taken(wanted: Mapping[str, Any]) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lowered = jax.jit(lambda x: x + 1.0).lower(jax.ShapeDtypeStruct((), "float32"))
    options: Any = dict(wanted)
    try:
        lowered.compile(compiler_options=options)
    except jax.errors.JaxRuntimeError as error:
        if UNKNOWN not in str(error):
            raise
        return False
    return True
