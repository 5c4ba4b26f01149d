"""Matrix work that a model needs per sequence of training, whatever the layout: the work that MFU counts."""

import dataclasses

from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware, matrix_peak
from jaxroof.model import Model
from jaxroof.op import PRODUCTS, Kernel
from jaxroof.struct import Scalar
from jaxroof.training.passes import forward_pass
from jaxroof.training.training import Training
from jaxroof.weight_only import as_run


def needed_products(model: Model, deployment: Deployment, training: Training) -> list[tuple[Kernel, Scalar]]:
    """Ops of one sequence's forward pass on one device, and how often their FLOP are needed in one iteration.

    3: forward, gradients of inputs and of weights; 2 where weights are frozen. Recomputed scores of fused attention
    are not needed, so its backward pass counts twice its forward one. Pairs are causal: half of a square.
    """
    alone = Deployment(attention_compute=deployment.attention_compute)
    single = dataclasses.replace(training, micro_batch=1.0)
    ops = forward_pass(model, alone, single)
    frozen = training.lora is not None
    return [
        (op, 2.0 if frozen and op.kind in PRODUCTS and op.role != "trained_adapter" else 3.0)
        for part in ops
        for op in part.values()
        if isinstance(op, Kernel) and op.matrix_flops is not None
    ]


def model_flops(model: Model, deployment: Deployment, training: Training) -> Scalar:
    """FLOP that one sequence of training needs, shape (): 6 per parameter of a matrix and token, and attention's.

    Embeddings are looked up, not multiplied: they do not count, but the output head does, tied or not.

    Source: Narayanan et al., arXiv:2104.04473, section 5.1, without recomputation and with causal pairs.
    """
    return sum(times * op.count * op.matrix_flops for op, times in needed_products(model, deployment, training))


def model_floor(hardware: Hardware, model: Model, deployment: Deployment, training: Training) -> Scalar:
    """Time in s of the same at one device's matrix peaks, each at its precision, shape ()."""
    return sum(
        times * op.count * op.matrix_flops / matrix_peak(hardware, op.precision)
        for op, times in needed_products(as_run(model, hardware), deployment, training)
    )
