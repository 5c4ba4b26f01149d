"""Frozen weights that are stored in fewer bits than they are multiplied in, as under QLoRA: conversion and bytes."""

import dataclasses

from jaxroof.layers.linear import DEQUANTIZE_FLOPS
from jaxroof.model import Model, WeightFormat
from jaxroof.op import AnyOp, Kernel, Ops
from jaxroof.shape import ProductShape
from jaxroof.struct import Scalar
from jaxroof.weight_only import formats_of

ENDING = "_dequantize"
"""End of the name of a kernel that converts a product's weights."""


def with_conversions(ops: Ops) -> Ops:
    """A pass whose products with weights of fewer bits follow a kernel that writes them at the products' precision.

    bytes = elements (stored + operand) of the conversion, and the product reads operands in place of stored weights.

    Source: bitsandbytes, bitsandbytes/autograd/_functions.py (MatMul4Bit): weights are converted whole before the
    product of a forward pass, and again before that of its backward pass.
    """
    found: Ops = {}
    for name, op in ops.items():
        if not converts(op):
            found[name] = op
            continue
        assert isinstance(op, Kernel)
        shape = op.shape
        elements = shape.matrices * shape.inputs * shape.outputs
        stored, wide = elements * shape.weight_bytes, elements * op.operand_bytes
        found[f"{name}{ENDING}"] = Kernel(
            kind="elementwise",
            precision=op.precision,
            count=op.count,
            kernels=op.kernels,
            layer=op.layer,
            role=op.role,
            phase=op.phase,
            vector_flops=DEQUANTIZE_FLOPS * elements,
            bytes=stored + wide,
        )
        found[name] = dataclasses.replace(
            op,
            vector_flops=None,
            bytes=op.bytes - stored + wide,
            shape=dataclasses.replace(shape, weight_bytes=op.operand_bytes),
        )
    return found


def conversions_again(forward: Ops) -> Ops:
    """The conversions of a forward pass that its backward pass repeats: weights are not kept converted."""
    return {
        f"{name}_again": dataclasses.replace(op, gradient="inputs") if isinstance(op, Kernel) else op
        for name, op in forward.items()
        if name.endswith(ENDING)
    }


def converts(op: AnyOp) -> bool:
    """Whether a kernel converts weights as it multiplies them."""
    return isinstance(op, Kernel) and isinstance(op.shape, ProductShape) and op.vector_flops is not None


def stored_bytes(weights: WeightFormat, weight_bytes: Scalar) -> Scalar:
    """B of one weight in training: as stored where it is frozen in fewer bits, else `Training.weight_bytes`."""
    return weights.bytes if weights.dequantised else weight_bytes


def frozen_formats(model: Model) -> bool:
    """Whether any weights of the model are stored in fewer bits than they are multiplied in: these have no gradient."""
    return any(weights.dequantised for weights in formats_of(model))
