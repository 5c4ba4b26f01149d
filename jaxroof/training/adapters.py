"""Low-rank adapters in a pass of training: two thin products per adapted matrix."""

import dataclasses

from jaxroof.deployment import Adapters, Deployment
from jaxroof.layers.adapters import adapter_matrices
from jaxroof.layers.linear import projection
from jaxroof.model import Model
from jaxroof.op import Ops, in_layer, with_role
from jaxroof.struct import Scalar
from jaxroof.training.training import LoRA


def adapted(deployment: Deployment, lora: LoRA) -> Deployment:
    """The deployment with the one adapter that is trained."""
    return dataclasses.replace(deployment, adapters=Adapters(loaded=1.0, rank=lora.rank, targets=lora.targets))


def adapter_ops(model: Model, deployment: Deployment, lora: LoRA, tokens: Scalar) -> Ops:
    """Products of all adapters over `tokens` tokens of one device; their sum with W's result rides in the second."""
    ops: Ops = {}
    for index, block in enumerate(model.blocks):
        prefix = f"{index}." if len(model.blocks) > 1 else ""
        products: Ops = {}
        for target, (down, up) in adapter_matrices(block, model.hidden, adapted(deployment, lora)).items():
            for name, matrix in ((f"lora_{target}_a", down), (f"lora_{target}_b", up)):
                products |= projection(name, tokens, matrix, deployment.activation_bytes, block.count)
        ops |= in_layer(with_role(products, "trained_adapter"), prefix)
    return ops
