"""Ops of one micro-batch's forward and backward pass on one device: of the layers, and before and after them."""

from typing import NamedTuple

from jaxroof.batch import Batch, prefill
from jaxroof.deployment import Deployment, request_groups
from jaxroof.layers.collective import collective
from jaxroof.layers.embedding import embedding_ops, head_product
from jaxroof.layers.linear import elementwise, norm
from jaxroof.model import Model
from jaxroof.numerics.struct import Scalar
from jaxroof.op import ATTENTION_CORES, Ops
from jaxroof.step.forward import device_tokens, group_batch, layer_ops, stage_tokens
from jaxroof.training.backward import backward_ops, transposed
from jaxroof.training.frozen import adapter_ops, conversions_again, with_conversions
from jaxroof.training.training import Training

LOSS_BYTES = 4.0
"""B per logit of the loss: float32, as frameworks compute it."""

LOSS_SUMS = 3.0
"""All-reduces of one number per token in a loss whose vocabulary is split: largest logit, the label's, sum of
exponentials. Source: NVIDIA/Megatron-LM, megatron/core/tensor_parallel/cross_entropy.py."""

WITH_GRADIENTS = (*ATTENTION_CORES, "trained_adapter")
"""Roles of ops whose every operand has a gradient while weights are frozen."""


class Pass(NamedTuple):
    """Ops of one micro-batch in one direction."""

    first: Ops  # before the layers: on the first pipeline stage
    layers: Ops  # of all layers, counted as often as they run
    last: Ops  # after the layers: on the last pipeline stage


def pass_tokens(deployment: Deployment, training: Training) -> tuple[Scalar, Scalar]:
    """Tokens of a micro-batch on one device, and of all attention groups that share experts."""
    batch = _batch(deployment, training)
    return device_tokens(group_batch(batch, deployment), deployment), stage_tokens(batch, deployment)


def forward_pass(model: Model, deployment: Deployment, training: Training) -> Pass:
    """The forward pass: a prefill of whole sequences, with logits and a loss for every token.

    An encoder-only model has no head; its loss costs nothing here.
    """
    local = group_batch(_batch(deployment, training), deployment)
    tokens, group_tokens = pass_tokens(deployment, training)
    layers = layer_ops(model, deployment, local, tokens, group_tokens)
    if training.lora is None:
        # With full training, 8-bit operands are written in both layouts.
        layers = transposed(layers)
    else:
        layers = with_conversions(layers) | adapter_ops(model, deployment, training.lora, tokens)
    last: Ops = {"final_norm": norm(tokens, model.hidden, deployment.activation_bytes, 1.0)}
    # Logits and loss for every token, not for the last alone.
    if model.generates:
        last |= with_conversions(head_product(model, deployment, tokens)) | loss_ops(model, deployment, tokens)
    return Pass(embedding_ops(model, deployment, tokens), layers, last)


def _batch(deployment: Deployment, training: Training) -> Batch:
    """A micro-batch of every attention group."""
    return prefill(training.micro_batch * request_groups(deployment), training.seq)


def loss_ops(model: Model, deployment: Deployment, tokens: Scalar) -> Ops:
    """Cross entropy of every token; each device has its part of the vocabulary."""
    width = model.vocabulary / deployment.tp
    return {
        # Softmax in float32 over the device's part of the vocabulary.
        "loss": elementwise(
            tokens,
            reads=width,
            writes=width,
            element_bytes=LOSS_BYTES,
            flops=4.0 * width,
            count=1.0,
            exps=width,
            role="loss",
        ),
        "loss_all_reduce": collective(
            "all_reduce", LOSS_BYTES * tokens, deployment.tp, LOSS_SUMS, parallelism="tp", role="loss"
        ),
    }


def backward_pass(forward: Pass, training: Training) -> Pass:
    """The backward pass of `forward`. With adapters every other weight is frozen, and nothing is before the layers.

    Frozen weights that are stored in fewer bits are converted again.

    Attention that is not fused multiplies activations with each other: both have gradients whatever is frozen.
    """
    gradient, lora = training.gradient_bytes, training.lora
    if lora is None:
        return Pass(*(backward_ops(ops, gradient) for ops in forward))
    # Frozen weights need dX alone; adapters and attention need all gradients.
    with_gradients = {name: op for name, op in forward.layers.items() if op.role in WITH_GRADIENTS}
    frozen = {name: op for name, op in forward.layers.items() if name not in with_gradients}
    layers = backward_ops(frozen, gradient, frozen=True) | backward_ops(with_gradients, gradient)
    layers = conversions_again(forward.layers) | layers
    # The head passes dX to the layers; its own weights are frozen.
    last = conversions_again(forward.last) | backward_ops(forward.last, gradient, frozen=True)
    return Pass({}, layers, last)
