"""Frozen weights that are stored in fewer bits than they are multiplied in, as under QLoRA: conversion and bytes."""

import dataclasses

from jaxroof.deployment import Adapters, Deployment
from jaxroof.layers.adapters import adapter_matrices
from jaxroof.layers.linear import DEQUANTIZE_FLOPS, elementwise, projection
from jaxroof.model import Model, WeightFormat
from jaxroof.numerics.struct import Scalar
from jaxroof.op import AnyOp, Kernel, Ops, ProductShape, in_layer, stored_elements, with_role
from jaxroof.step.forward import formats_of
from jaxroof.training.training import LoRA

ENDING = "_dequantize"
"""End of the name of a kernel that converts a product's weights."""


def with_conversions(ops: Ops) -> Ops:
    """A pass whose products with weights of fewer bits follow a kernel that writes them at the products' precision.

    bytes = elements (stored + operand) of the conversion, and the product reads operands in place of stored weights.

    Source: bitsandbytes, bitsandbytes/autograd/_functions.py (MatMul4Bit): weights are converted whole before the
    product of a forward pass, and again before that of its backward pass.
    """
    pass_ops: Ops = {}
    for name, op in ops.items():
        # Products at full precision pass unchanged.
        if not converts(op):
            pass_ops[name] = op
            continue
        assert isinstance(op, Kernel)
        shape = op.shape
        elements = stored_elements(shape)
        # The converted copy is written and read again: QLoRA trades time for memory.
        stored, wide = elements * shape.weight_bytes, elements * op.operand_bytes
        pass_ops[f"{name}{ENDING}"] = Kernel(
            kind="elementwise",
            precision=op.precision,
            count=op.count,
            kernels=op.kernels,
            layer=op.layer,
            role="conversion",
            phase=op.phase,
            vector_flops=DEQUANTIZE_FLOPS * elements,
            bytes=stored + wide,
        )
        # The product then reads 16-bit weights.
        pass_ops[name] = dataclasses.replace(
            op,
            vector_flops=None,
            bytes=op.bytes - stored + wide,
            shape=dataclasses.replace(shape, weight_bytes=op.operand_bytes),
        )
    return pass_ops


def conversions_again(forward: Ops) -> Ops:
    """The conversions of a forward pass that its backward pass repeats: weights are not kept converted."""
    return {
        f"{name}_again": dataclasses.replace(op, gradient="inputs") if isinstance(op, Kernel) else op
        for name, op in forward.items()
        if op.role == "conversion"
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


# Low-rank adapters in a pass of training: two thin products per adapted matrix, dropout before, a sum after.


SHARED_INPUTS = {"k": "q", "v": "q"}
"""Target -> another one that multiplies the same inputs."""

TO_RESIDUAL = ("o", "down")
"""Targets whose results are added to the residual stream: with sequence parallelism 1/tp of the tokens on each device,
as is what the others read before it is gathered."""

MASK_BYTES = 1.0
"""B per element of a mask of dropout."""

DROPOUT_FLOPS, SCALED_SUM_FLOPS = 3.0, 2.0
"""Vector FLOP per element: a random number's comparison, product and scale; a product and an addition. Ours."""


def adapted(deployment: Deployment, lora: LoRA) -> Deployment:
    """The deployment with the one adapter that is trained."""
    return dataclasses.replace(deployment, adapters=Adapters(loaded=1.0, rank=lora.rank, targets=lora.targets))


def adapter_ops(model: Model, deployment: Deployment, lora: LoRA, tokens: Scalar) -> Ops:
    """Kernels of all adapters over `tokens` tokens of one device, frameworks' three beside W's: products, and sums.

    Dropout, where there is any, reads and writes the inputs and a mask of 1 B each; adapters of one input share it. The
    scaled result is added to W's by a kernel of its own.

    Source: NVIDIA-NeMo/NeMo, nemo/collections/llm/peft/lora.py (LoRALinear), huggingface/peft, tuners/lora/layer.py.
    """
    element = deployment.activation_bytes
    # Sequence parallelism: dropout and sums work on a device's share of the tokens.
    part = tokens / deployment.tp if deployment.sequence_parallel else tokens
    ops: Ops = {}
    for index, block in enumerate(model.blocks):
        prefix = f"{index}." if len(model.blocks) > 1 else ""
        products: Ops = {}
        for target, (down, up) in adapter_matrices(block, model.hidden, adapted(deployment, lora)).items():
            # Query, key and value adapters read the same dropped-out input.
            if SHARED_INPUTS.get(target) not in lora.targets:
                masked = down.inputs * (2.0 + MASK_BYTES / element)
                products[f"lora_{target}_dropout"] = elementwise(
                    (tokens if target in TO_RESIDUAL else part) * lora.dropout,
                    reads=masked,
                    writes=0.0,
                    element_bytes=element,
                    flops=DROPOUT_FLOPS * down.inputs,
                    count=block.count,
                )
            for name, matrix in ((f"lora_{target}_a", down), (f"lora_{target}_b", up)):
                products |= projection(name, tokens, matrix, element, block.count)
            outputs = up.outputs
            products[f"lora_{target}_sum"] = elementwise(
                part if target in TO_RESIDUAL else tokens,
                reads=2.0 * outputs,
                writes=outputs,
                element_bytes=element,
                flops=SCALED_SUM_FLOPS * outputs,
                count=block.count,
            )
        ops |= in_layer(with_role(products, "trained_adapter"), prefix)
    return ops
