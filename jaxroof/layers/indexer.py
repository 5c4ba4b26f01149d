"""Indexer of sparse attention, which chooses the tokens to attend to: projections, scores and top-k."""

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.layers.elementwise import elementwise
from jaxroof.layers.linear import OPERAND_BYTES, Matrices, Matrix, launched, projection
from jaxroof.layers.sight import Sight, attended_pairs, mean_length
from jaxroof.model import Selection
from jaxroof.op import Op
from jaxroof.struct import Scalar

SCORE_FLOPS = 3.0
"""Vector FLOP per head and pair that is scored: rectify, weight, add."""

SCORE_BYTES = 4.0
"""B of one score; float32."""

TOP_K_PASSES = 2.0
"""Times that a radix top-k reads the scores."""


def indexer_matrices(selection: Selection, hidden: Scalar, query_inputs: Scalar | None) -> Matrices:
    """Weight matrices of one layer's indexer; every tensor-parallel device has them all.

    Args:
      query_inputs: width that queries are projected from where the layer compresses its queries; None: hidden.
    """
    inputs = hidden if selection.query_rank is None or query_inputs is None else query_inputs
    return {
        "index_q_proj": Matrix(inputs, selection.heads * selection.head_dim, selection.weights),
        "index_k_proj": Matrix(hidden, selection.key_outputs + selection.heads, selection.weights),
    }


def indexer_ops(
    selection: Selection,
    hidden: Scalar,
    query_inputs: Scalar | None,
    deployment: Deployment,
    batch: Batch,
    tokens: Scalar,
    count: Scalar,
) -> dict[str, Op]:
    """Ops of one layer's indexer in the order they run: every query scores every cached key, and keeps the best.

    An indexer without heads launches nothing: its layer attends to what an earlier one chose.
    """
    activation, runs = deployment.activation_bytes, launched(selection.heads)
    tokens = runs * tokens
    matrices = indexer_matrices(selection, hidden, query_inputs)
    ops = {}
    for name, matrix in matrices.items():
        ops |= projection(name, tokens, matrix, activation, count)
    width = selection.heads * selection.head_dim + selection.head_dim
    ops["index_write"] = elementwise(
        tokens,
        reads=width,
        writes=width * selection.key_bytes / activation,
        element_bytes=activation,
        flops=4.0 * width,
        count=count,
        kernels=2.0,
    )
    cp = degree(deployment.cp)
    if batch.prefill is not None:
        part = batch.prefill
        new, past = (mean_length(length, part.sequences) for length in (part.tokens, part.past))
        pairs = runs * part.sequences * attended_pairs(new, past, Sight(limit=None, kind=None))
        keys = runs * (part.tokens + part.past)
        ops |= _choice("prefill", selection, runs * part.tokens / cp, pairs / cp, keys, count)
    if batch.decode is not None:
        part = batch.decode
        queries = runs * part.sequences * tokens_per_sequence(deployment)
        pairs = queries * mean_length(part.context, part.sequences) / cp
        ops |= _choice("decode", selection, queries, pairs, runs * part.context / cp, count)
    return ops


def _choice(
    part: str, selection: Selection, queries: Scalar, pairs: Scalar, cached: Scalar, count: Scalar
) -> dict[str, Op]:
    """Scores of `queries` queries over `cached` cached tokens, and the choice of the best."""
    compute = selection.weights.compute
    scores = pairs / selection.stride
    scoring = Op(
        kind=f"{part}_attention",
        precision=compute,
        count=count,
        kernels=launched(queries),
        matrix_flops=2.0 * scores * selection.heads * selection.head_dim,
        operand_bytes=OPERAND_BYTES[compute],
        vector_flops=SCORE_FLOPS * scores * selection.heads,
        bytes=cached / selection.stride * selection.head_dim * selection.key_bytes + scores * SCORE_BYTES,
    )
    top_k = elementwise(scores, TOP_K_PASSES, 0.0, SCORE_BYTES, TOP_K_PASSES, count)
    return {f"{part}_index_scores": scoring, f"{part}_index_top_k": top_k}


def index_key_bytes(selection: Selection) -> Scalar:
    """B of the indexer's cache that one token takes in one layer."""
    return selection.head_dim * selection.key_bytes / selection.stride
