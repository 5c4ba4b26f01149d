"""Machine code of LLVM's text, for the processor at hand."""

import ctypes
import functools
from typing import Any

import llvmlite.binding as llvm


def compiled(text: str, names: list[str]) -> list[Any]:
    """Functions of a module, of two pointers each; they live as long as this process."""
    module = llvm.parse_assembly(text)
    engine = llvm.create_mcjit_compiler(module, _target())
    engine.finalize_object()
    form = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    _ENGINES.append(engine)
    return [form(engine.get_function_address(name)) for name in names]


_ENGINES: list[Any] = []
"""Owners of machine code, which ends with them: functions of it may be anywhere."""


def lanes(itemsize: int) -> int:
    """Floats of a vector register."""
    features = llvm.get_host_cpu_features()
    width = 64 if features.get("avx512f") else 32 if features.get("avx") else 16
    return width // itemsize


@functools.cache
def _target() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True
    )
