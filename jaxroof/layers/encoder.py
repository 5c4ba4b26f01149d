"""Ops of an encoder in the step that prefills: embedding, blocks over its own tokens, projector."""

import dataclasses

from jaxroof.arrays import jnp
from jaxroof.batch import Batch, Encode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.block import block_matrices, block_ops
from jaxroof.layers.elementwise import elementwise, norm
from jaxroof.layers.linear import Matrices, Matrix, projection
from jaxroof.model import Encoder
from jaxroof.op import Ops, in_layer, with_role
from jaxroof.struct import Array

PREFIX = "encoder."
"""The layer of an encoder's ops, which their names begin with."""


def encoder_deployment(encoder: Encoder, deployment: Deployment) -> tuple[Deployment, Array]:
    """Deployment of an encoder on the tp devices, and the share of its tokens that each of them works on, shape ().

    Blocks are split like the decoder's where tp divides their heads and widths. Where it does not, every device has
    the whole encoder and encodes 1 / tp of the images (vLLM's mm_encoder_tp_mode = "data"). Context-parallel devices
    encode all tokens each.
    """
    tp = deployment.tp
    split = jnp.asarray(True)
    for block in encoder.blocks:
        split = (
            split & (jnp.mod(block.attention.heads, tp) == 0.0) & (jnp.mod(block.feedforward.intermediate, tp) == 0.0)
        )
    own = dataclasses.replace(deployment, tp=jnp.where(split, tp, 1.0), cp=None)
    return own, jnp.where(split, 1.0, 1.0 / tp)


def encoder_matrices(encoder: Encoder, deployment: Deployment) -> list[tuple[Matrices, float]]:
    """Weight matrices of the encoder on one device with how many layers have them; words' embedding left out."""
    deployment, _ = encoder_deployment(encoder, deployment)
    outer = {f"projector_{i}": Matrix(*_sizes(layer)) for i, layer in enumerate(encoder.projector)}
    if encoder.inputs is not None:
        outer["embedding"] = Matrix(encoder.inputs, encoder.hidden, encoder.embedding)
    blocks = [(block_matrices(block, encoder.hidden, deployment), block.count) for block in encoder.blocks]
    return [(outer, 1.0), *blocks]


def encoder_ops(encoder: Encoder, deployment: Deployment, encode: Encode) -> Ops:
    """Ops that turn `encode` into vectors for the decoder, in the order they run.

    Embedding and projector are whole on every device; `encoder_deployment` says how blocks are spread.
    """
    deployment, share = encoder_deployment(encoder, deployment)
    activation, tokens = deployment.activation_bytes, encode.tokens * share
    if encoder.inputs is None:
        ops: Ops = {"embedding": elementwise(tokens, encoder.hidden, encoder.hidden, activation, encoder.hidden, 1.0)}
    else:
        matrix = Matrix(encoder.inputs, encoder.hidden, encoder.embedding)
        ops = projection("embedding", tokens, matrix, activation, 1.0)
    ops = with_role(ops, "embedding")
    batch = Batch(prefill=Prefill(sequences=encode.sequences * share, tokens=tokens, past=0.0), decode=None, logits=0.0)
    for index, block in enumerate(encoder.blocks):
        prefix = f"{index}." if len(encoder.blocks) > 1 else ""
        ops |= in_layer(block_ops(block, encoder.hidden, deployment, batch, tokens, tokens), prefix)
    ops["final_norm"] = norm(tokens, encoder.hidden, activation, 1.0)
    for index, layer in enumerate(encoder.projector):
        ops |= projection(f"projector_{index}", tokens / encoder.merged, Matrix(*_sizes(layer)), activation, 1.0)
    return in_layer(with_role(ops, "projector"), PREFIX)


def _sizes(layer) -> tuple:
    return layer.inputs, layer.outputs, layer.weights
