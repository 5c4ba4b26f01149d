"""What an encoder adds to the step that prefills: embedding, blocks over its own tokens, projector."""

import dataclasses

from jaxroof.batch import Batch, Encode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.block import block_matrices, block_ops
from jaxroof.layers.elementwise import elementwise, norm
from jaxroof.layers.linear import Matrices, Matrix, projection
from jaxroof.model import Encoder
from jaxroof.op import Op

PREFIX = "encoder."
"""What the names of an encoder's ops begin with."""


def encoder_matrices(encoder: Encoder, deployment: Deployment) -> list[tuple[Matrices, float]]:
    """Weight matrices of the encoder on one device with how many layers have them; words' embedding left out."""
    outer = {f"projector_{i}": Matrix(*_sizes(layer)) for i, layer in enumerate(encoder.projector)}
    if encoder.inputs is not None:
        outer["embedding"] = Matrix(encoder.inputs, encoder.hidden, encoder.embedding)
    blocks = [(block_matrices(block, encoder.hidden, deployment), block.count) for block in encoder.blocks]
    return [(outer, 1.0), *blocks]


def encoder_ops(encoder: Encoder, deployment: Deployment, encode: Encode) -> dict[str, Op]:
    """Ops that turn `encode` into vectors for the decoder, in the order they run.

    Blocks are split over tp like the decoder's; embedding and projector are whole on every device, and every
    context-parallel device encodes all tokens.
    """
    deployment = dataclasses.replace(deployment, cp=None)
    activation, tokens = deployment.activation_bytes, encode.tokens
    if encoder.inputs is None:
        ops = {"embedding": elementwise(tokens, encoder.hidden, encoder.hidden, activation, encoder.hidden, 1.0)}
    else:
        matrix = Matrix(encoder.inputs, encoder.hidden, encoder.embedding)
        ops = projection("embedding", tokens, matrix, activation, 1.0)
    batch = Batch(prefill=Prefill(sequences=encode.sequences, tokens=tokens, past=0.0), decode=None, logits=0.0)
    for index, block in enumerate(encoder.blocks):
        prefix = f"{index}." if len(encoder.blocks) > 1 else ""
        layer = block_ops(block, encoder.hidden, deployment, batch, tokens, tokens)
        ops |= {prefix + name: op for name, op in layer.items()}
    ops["final_norm"] = norm(tokens, encoder.hidden, activation, 1.0)
    for index, layer in enumerate(encoder.projector):
        ops |= projection(f"projector_{index}", tokens / encoder.merged, Matrix(*_sizes(layer)), activation, 1.0)
    return {PREFIX + name: op for name, op in ops.items()}


def _sizes(layer) -> tuple:
    return layer.inputs, layer.outputs, layer.weights
