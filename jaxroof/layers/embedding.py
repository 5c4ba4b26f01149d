"""Ops around the layers: embedding lookup, output head, sampling."""

import dataclasses

from jaxroof.batch import Batch, Decode
from jaxroof.deployment import Deployment, request_groups
from jaxroof.layers.block import block_matrices, block_ops
from jaxroof.layers.collective import all_reduce, collective
from jaxroof.layers.linear import Matrices, Matrix, elementwise, launched, norm, projection
from jaxroof.model import Model, Prediction, head_rows
from jaxroof.numerics.smooth import positive_part
from jaxroof.numerics.struct import Scalar, given
from jaxroof.op import Ops, in_layer, with_role

LOGIT_BYTES = 4.0
"""B of a logit where a token is drawn: float32."""

SORT_BYTES, SORT_KERNELS = 400.0, 30.0
"""B that a sampler moves per logit where it sorts all of them, and its kernels: the radix sort by value and that by row
of 4 B keys with 8 B of places, then softmax, running sum, mask, scatter and draw in kernels of their own.

Source: vLLM's timings of its PyTorch sampler: top-k on a GB200 61 to 107 ps per logit (1024 and 128 rows of 160,000,
pull request 54502), top-p 92 to 138 ps (512 and 128 rows of 131,072, pull request 40376); at 70 % of the bandwidth
the first is 340 B, to which the draw adds some 40. Kernels are ours, counted in PyTorch's sort.
"""


def embedding_ops(model: Model, deployment: Deployment, tokens: Scalar) -> Ops:
    """Lookup of one row of the embedding per token; its vocabulary is split over tp, and rows are summed."""
    lookup = elementwise(
        # A gather: bytes of one row per token, no product. Vocabulary parallel: a device has zeros for words of others,
        # hence the sum.
        tokens,
        reads=model.hidden * model.embedding.bytes / deployment.activation_bytes,
        writes=model.hidden,
        element_bytes=deployment.activation_bytes,
        flops=model.hidden,
        count=1.0,
        role="embedding",
    )
    summed = all_reduce("embedding", tokens, model.hidden, deployment, 1.0, role="embedding", behind=None)
    return {"embedding": lookup} | summed


def features_ops(model: Model, deployment: Deployment, tokens: Scalar) -> Ops:
    """Projection of what a draft takes in of the model that it drafts for; every device does all of it."""
    features = given(model.features, "features that the draft reads")
    matrix = Matrix(features.inputs, model.hidden, features.weights)
    return with_role(projection("features", tokens, matrix, deployment.activation_bytes, 1.0), "projector")


def head_ops(model: Model, deployment: Deployment, rows: Scalar, count: Scalar = 1.0) -> Ops:
    """Output head on the rows that sample a token, its vocabulary split over tp and gathered, and sampling in float32.

    Sampling reads the logits twice (softmax statistics, choice) and takes one exponential for each.
    """
    # Only rows that sample need logits: one per sequence, not one per token of a prompt.
    words = head_rows(model)
    logits = rows * words * deployment.communication_bytes
    return {
        **head_product(model, deployment, rows, count),
        "head_all_gather": collective("all_gather", logits, deployment.tp, count, parallelism="tp", role="head"),
        # Softmax over the vocabulary in float32: memory-bound, on every device after the gather.
        "sample": elementwise(
            rows,
            reads=2.0 * words,
            writes=1.0,
            element_bytes=LOGIT_BYTES,
            flops=3.0 * words,
            count=count,
            kernels=2.0,
            exps=words,
            role="sampling",
        ),
    }


def sort_ops(model: Model, rows: Scalar) -> Ops:
    """The sort of all logits of `rows` rows on every device, which top-p and top-k take without a kernel of their own.

    As logits are gathered before, tensor parallelism does not share it out.
    """
    words = head_rows(model)
    # Bytes in and out are equal: a radix sort reads and writes all pairs in each pass.
    half = 0.5 * SORT_BYTES / LOGIT_BYTES * words
    return {
        "sort": elementwise(
            rows,
            reads=half,
            writes=half,
            element_bytes=LOGIT_BYTES,
            flops=words,
            count=1.0,
            kernels=SORT_KERNELS,
            role="sampling",
        )
    }


def head_product(model: Model, deployment: Deployment, rows: Scalar, count: Scalar = 1.0) -> Ops:
    """The output head alone: logits of `rows` rows, of the vocabulary what one device has."""
    matrix = Matrix(model.hidden, head_rows(model) / deployment.tp, model.head)
    return with_role(projection("head", rows, matrix, deployment.activation_bytes, count), "head")


# Multi-token-prediction head in a step: one run over the step's tokens, one per further draft.


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
    # A prediction head attends to the same context as the model, so its cache grows with it.
    if batch.prefill is not None:
        context = context + batch.prefill.tokens + batch.prefill.past
    newest = Batch(prefill=None, decode=Decode(sequences=batch.logits, context=context), logits=batch.logits)
    drafts = given(deployment.drafts, "number of drafts")
    # Drafts after the first run one token per sequence: nothing to verify in between.
    single = dataclasses.replace(deployment, drafts=None)
    groups = request_groups(deployment)
    return {
        **_run(PREFIX, model, deployment, batch, tokens, group_tokens, launched(drafts)),
        # Autoregressive drafting: the k-th draft needs the one before, so k - 1 further runs are serial.
        **_run(FURTHER, model, single, newest, batch.logits, batch.logits * groups, positive_part(drafts - 1.0)),
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
    prediction = given(model.prediction, "prediction head")
    block = dataclasses.replace(prediction.block, count=runs)
    activation = deployment.activation_bytes
    matrix = join_matrix(prediction, model.hidden)
    ops = {
        "norms": norm(2.0 * tokens, model.hidden, activation, runs),
        **with_role(projection("join_proj", tokens, matrix, activation, runs), "projector"),
        **block_ops(block, model.hidden, deployment, batch, tokens, group_tokens),
        "final_norm": norm(tokens, model.hidden, activation, runs),
        **head_ops(model, deployment, batch.logits, runs),
    }
    return in_layer(ops, prefix)
