"""Multi-token-prediction head in a step: one run over the step's tokens, one per further draft."""

import dataclasses

from jaxroof.batch import Batch, Decode
from jaxroof.deployment import Deployment, degree
from jaxroof.layers.block import block_matrices, block_ops
from jaxroof.layers.elementwise import norm
from jaxroof.layers.embedding import head_ops
from jaxroof.layers.linear import Matrices, Matrix, launched, projection
from jaxroof.model import Model, Prediction
from jaxroof.op import Ops, in_layer, with_role
from jaxroof.smooth import positive_part
from jaxroof.struct import Scalar

PREFIX = "draft."
"""The layer of a prediction head's ops, which their names begin with."""

FURTHER = "drafts."
"""Their layer in the runs after the first."""


def prediction_matrices(prediction: Prediction, hidden: Scalar, deployment: Deployment) -> Matrices:
    """Weight matrices of one module on one device."""
    return {"join_proj": join_matrix(prediction, hidden)} | block_matrices(prediction.block, hidden, deployment)


def join_matrix(prediction: Prediction, hidden: Scalar) -> Matrix:
    """The projection of a hidden state and the next token's embedding to one; on every device."""
    return Matrix(2.0 * hidden, hidden, prediction.projection)


def prediction_ops(model: Model, deployment: Deployment, batch: Batch, tokens: Scalar, group_tokens: Scalar) -> Ops:
    """Ops that draft `deployment.drafts` tokens per sequence: a run over all tokens of the step, and one per further
    draft over the newest token of every sequence.

    Every run joins the hidden state with the next token's embedding, runs one block and the output head.
    """
    context = 0.0 if batch.decode is None else batch.decode.context
    if batch.prefill is not None:
        context = context + batch.prefill.tokens + batch.prefill.past
    newest = Batch(prefill=None, decode=Decode(sequences=batch.logits, context=context), logits=batch.logits)
    single = dataclasses.replace(deployment, drafts=None)
    groups = degree(deployment.attention_dp)
    return {
        **_run(PREFIX, model, deployment, batch, tokens, group_tokens, launched(deployment.drafts)),
        **_run(
            FURTHER, model, single, newest, batch.logits, batch.logits * groups, positive_part(deployment.drafts - 1.0)
        ),
    }


def _run(
    prefix: str,
    model: Model,
    deployment: Deployment,
    batch: Batch,
    tokens: Scalar,
    group_tokens: Scalar,
    runs: Scalar,
) -> Ops:
    block = dataclasses.replace(model.prediction.block, count=runs)
    activation = deployment.activation_bytes
    matrix = join_matrix(model.prediction, model.hidden)
    ops = {
        "norms": norm(2.0 * tokens, model.hidden, activation, runs),
        **with_role(projection("join_proj", tokens, matrix, activation, runs), "projector"),
        **block_ops(block, model.hidden, deployment, batch, tokens, group_tokens),
        "final_norm": norm(tokens, model.hidden, activation, runs),
        **head_ops(model, deployment, batch.logits, runs),
    }
    return in_layer(ops, prefix)
