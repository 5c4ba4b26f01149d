"""Low-rank adapters in a pass of training: two thin products per adapted matrix, dropout before, a sum after."""

import dataclasses

from jaxroof.deployment import Adapters, Deployment
from jaxroof.layers.adapters import adapter_matrices
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import projection
from jaxroof.model import Model
from jaxroof.op import Ops, in_layer, with_role
from jaxroof.struct import Scalar
from jaxroof.training.training import LoRA

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
    part = tokens / deployment.tp if deployment.sequence_parallel else tokens
    ops: Ops = {}
    for index, block in enumerate(model.blocks):
        prefix = f"{index}." if len(model.blocks) > 1 else ""
        products: Ops = {}
        for target, (down, up) in adapter_matrices(block, model.hidden, adapted(deployment, lora)).items():
            if SHARED_INPUTS.get(target) not in lora.targets:
                masked = down.inputs * (2.0 + MASK_BYTES / element)
                products[f"lora_{target}_dropout"] = elementwise(
                    (tokens if target in TO_RESIDUAL else part) * lora.dropout,
                    masked,
                    0.0,
                    element,
                    DROPOUT_FLOPS * down.inputs,
                    block.count,
                )
            for name, matrix in ((f"lora_{target}_a", down), (f"lora_{target}_b", up)):
                products |= projection(name, tokens, matrix, element, block.count)
            outputs = up.outputs
            products[f"lora_{target}_sum"] = elementwise(
                part if target in TO_RESIDUAL else tokens,
                2.0 * outputs,
                outputs,
                element,
                SCALED_SUM_FLOPS * outputs,
                block.count,
            )
        ops |= in_layer(with_role(products, "trained_adapter"), prefix)
    return ops
