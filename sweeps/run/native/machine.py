"""Machine code of LLVM's text, for the processor at hand."""

import ctypes
import functools
from typing import Any

import llvmlite.binding as llvm


class Machine:
    """Functions of a module, of two pointers each. They are gone when this is.

    Args:
      text: of the module.
      names: of its functions.

    Attributes:
      functions: in the order of `names`.
    """

    def __init__(self, text: str, names: list[str]):
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), _target())  # which owns both
        self._engine.finalize_object()
        form = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
        self.functions: list[Any] = [form(self._engine.get_function_address(name)) for name in names]


def lanes(itemsize: int) -> int:
    """Floats of a vector register."""
    features = llvm.get_host_cpu_features()
    width = 64 if features.get("avx512f") else 32 if features.get("avx") else 16
    return width // itemsize


def _target() -> Any:
    features = llvm.get_host_cpu_features().flatten()
    return _native().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)


@functools.cache
def _native() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple()
