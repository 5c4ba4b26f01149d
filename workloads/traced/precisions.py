"""Precisions that matrix products run in: the type of their operands, what JAX was asked for, and the hardware."""

import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

import numpy as np

from workloads.traced.graph import Node

DEFAULT, HIGHEST = "DEFAULT", "HIGHEST"

FLOAT32 = {
    DEFAULT: (("tf32", "fp32"), 1.0),
    "HIGH": (("tf32", "fp32"), 3.0),
    HIGHEST: (("fp32",), 6.0),
}
"""Asked precision of float32 products -> precisions they may run in, the first that the hardware has; and the passes
of bf16 where it has none of them, or is a TPU.

Source: `jax.lax.Precision`, https://docs.jax.dev/en/latest/jax.lax.html: on GPUs tf32 where there is that, and float32
for HIGHEST; on TPUs 1, 3 and 6 passes of bf16. Convolutions follow the same parameter.
"""

CHOICES = {
    "float64": ("fp64",),
    "bfloat16": ("bf16",),
    "float16": ("fp16", "bf16"),
    "int8": ("int8",),
    "uint8": ("int8",),
    "int4": ("int8",),  # XLA widens them
    "uint4": ("int8",),
}
"""Type of other operands -> precisions that their products may run in, the first that the hardware has."""

VECTOR_TYPES = ("int16", "int32", "int64", "uint16", "uint32", "uint64", "bool")
"""Types whose products run on vector units: no matrix unit has them."""

REAL_PRODUCTS = 4.0
"""Products of real numbers in one of complex numbers."""

_ALGORITHM = re.compile(r"(BF16|TF32|F16|F32)_\w*?(?:_X(\d+))?")
_SHORT = {"BF16": "bf16", "F16": "fp16"}


class Products(NamedTuple):
    """How products run: in this precision, this many times."""

    precision: str
    passes: float = 1.0


def asked(node: Node) -> str:
    """What JAX was asked for with a product: DEFAULT, HIGH, HIGHEST, or the name of an algorithm such as TF32_TF32_F32.

    It is the parameter `precision` of the call, or else `jax.default_matmul_precision` where the function was traced.
    """
    given: Any = node.params.get("precision")
    if hasattr(given, "lhs_precision_type"):  # jax.lax.DotAlgorithm
        left = np.dtype(given.lhs_precision_type).name.upper().replace("FLOAT", "F")
        return f"{left}_{left}_F32_X{given.num_primitive_operations}"
    if isinstance(given, tuple):
        return strictest(one.name for one in given)
    return DEFAULT if given is None else given.name


def strictest(asked_for: Iterable[str]) -> str:
    """Of several precisions that were asked for the one that takes most passes."""
    return max(asked_for, key=lambda one: products_of("float32", one, ("bf16",)).passes, default=DEFAULT)


def is_asked(name: str) -> bool:
    """Whether products of operands of this type run as they are asked to."""
    return name in ("float32", "complex64")


def products_of(name: str, asked_for: str, matrix: Collection[str]) -> Products:
    """How products of operands of type `name` run on hardware whose matrix units have these precisions.

    A usual one where the hardware has none: its time is then refused by name.
    """
    if name.startswith("complex"):
        real = products_of("float32" if name == "complex64" else "float64", asked_for, matrix)
        return Products(real.precision, REAL_PRODUCTS * real.passes)
    if name != "float32":
        four, eight = name.startswith("float4"), name.startswith("float8")
        choices = CHOICES.get(name, ("fp4",) if four else ("fp8",) if eight else (name,))
        return Products(next((choice for choice in choices if choice in matrix), choices[0]))
    return _float32(asked_for, matrix)


def _float32(asked_for: str, matrix: Collection[str]) -> Products:
    algorithm = _ALGORITHM.fullmatch(asked_for)
    if algorithm is not None and algorithm[1] in _SHORT:
        return Products(_SHORT[algorithm[1]], float(algorithm[2] or 1.0))
    level = asked_for
    if algorithm is not None:
        level = HIGHEST if algorithm[1] == "F32" else "HIGH"
        if algorithm[1] == "TF32" and "tf32" in matrix:
            return Products("tf32", float(algorithm[2] or 1.0))
    choices, passes = FLOAT32.get(level, FLOAT32[DEFAULT])
    usual = next((choice for choice in choices if choice in matrix), None)
    if "bf16" in matrix and (usual is None or is_tpu(matrix)):
        return Products("bf16", passes)
    return Products(choices[-1] if usual is None else usual)


def is_tpu(matrix: Collection[str]) -> bool:
    """Whether matrix units with these precisions are a TPU's: bf16 is the one floating-point type of 16 bits and more
    that they multiply, so that its float32 is that of the vector units.
    """
    return "bf16" in matrix and not {"fp16", "tf32"} & set(matrix)
