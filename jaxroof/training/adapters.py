"""Low-rank adapters in a pass of training: two thin products per adapted matrix."""

import dataclasses

from jaxroof.deployment import Adapters, Deployment
from jaxroof.layers.adapters import adapter_matrices
from jaxroof.layers.linear import projection
from jaxroof.model import Model
from jaxroof.op import Op
from jaxroof.struct import Scalar
from jaxroof.training.training import LoRA


def adapted(deployment: Deployment, lora: LoRA) -> Deployment:
    """The deployment with the one adapter that is trained."""
    return dataclasses.replace(deployment, adapters=Adapters(loaded=1.0, rank=lora.rank, targets=lora.targets))


def adapter_ops(model: Model, deployment: Deployment, lora: LoRA, tokens: Scalar) -> dict[str, Op]:
    """Products of all adapters over `tokens` tokens of one device; their sum with W's result rides in the second."""
    ops: dict[str, Op] = {}
    for index, block in enumerate(model.blocks):
        prefix = f"{index}." if len(model.blocks) > 1 else ""
        for target, (down, up) in adapter_matrices(block, model.hidden, adapted(deployment, lora)).items():
            for name, matrix in ((f"{prefix}lora_{target}_a", down), (f"{prefix}lora_{target}_b", up)):
                ops |= projection(name, tokens, matrix, deployment.activation_bytes, block.count)
    return ops
