"""Sight of tokens: pairs, cached tokens in reach and visible context, under windows and selections."""

from jaxroof.batch import Batch
from jaxroof.deployment import Deployment, degree, tokens_per_sequence
from jaxroof.layers.linear import OPERAND_BYTES, Matrices, Matrix, elementwise, launched, projection
from jaxroof.model import WeightFormat
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import maximum, minimum, positive_part
from jaxroof.numerics.struct import Array, Scalar, static, struct
from jaxroof.op import ChoiceShape, Kernel, Ops, ScoreShape, in_phase, with_role


@struct
class Sight:
    """Reach of a query over the tokens before it."""

    limit: Scalar | None  # tokens that a query attends to at most; None: all before it
    kind: str | None = static()  # "sliding", "chunked", "selected", or None exactly where there is no limit
    causal: bool = static(default=True)  # False: later tokens of the same sequence too


def attended_pairs(new: Scalar, past: Scalar, seen: Sight) -> Scalar:
    """Query-key pairs of `new` tokens that follow `past` cached ones; each sees itself and what its sight leaves.

    Full: new past + new (new + 1) / 2. Sliding window w: a query sees at most w tokens, itself included; so does one
    that selects w tokens. Chunked w: a query sees its own chunk of w tokens up to itself. Without causality a query
    sees its sequence, its window or its chunk in both directions. Written without differences of large numbers.
    """
    if not seen.causal:
        # Without a causal mask every query sees the same number of keys.
        return new * _both_ways(new, seen)
    limit = seen.limit
    if limit is None:
        return new * past + _triangle(new)
    if seen.kind == "chunked":
        reach = _reached_of_chunk(past, limit)
        first = minimum(new, limit - reach)  # what still fits into the chunk that the past began
        chunks = jnp.floor((new - first) / limit)
        rest = new - first - chunks * limit
        return first * reach + _triangle(first) + chunks * _triangle(limit) + _triangle(rest)
    # Sliding window: queries see more and more until the window is full, then w each.
    ramp = minimum(new, positive_part(limit - past))  # queries that see all there is
    return ramp * past + _triangle(ramp) + (new - ramp) * limit


def reachable_past(past: Scalar, seen: Sight) -> Scalar:
    """Of `past` cached tokens, those that the next one can see, or choose from."""
    if seen.limit is None or seen.kind == "selected":
        return past
    if seen.kind == "chunked":
        return _reached_of_chunk(past, seen.limit)
    # The next token itself takes one place of the window.
    return minimum(past, seen.limit - 1.0)


def visible_context(context: Scalar, seen: Sight) -> Scalar:
    """Tokens that the newest of `context` tokens attends to, itself included; `context` is at least 1."""
    if seen.limit is not None and seen.kind == "selected":
        return minimum(context, seen.limit)
    return reachable_past(context - 1.0, seen) + 1.0


def kept_tokens(context: Scalar, seen: Sight) -> Scalar:
    """Tokens of a sequence of `context` that stay in the cache: a window holds its width, a selection everything."""
    if seen.limit is None or seen.kind == "selected":
        return context
    # A rolling buffer: older entries are overwritten.
    return minimum(context, seen.limit)


def mean_length(tokens: Scalar, sequences: Scalar) -> Array:
    """Tokens per sequence, shape (), 0 where there is no sequence."""
    return tokens / jnp.where(sequences > 0.0, sequences, 1.0)


def decoded_context(context: Scalar, sequences: Scalar, seen: Sight) -> Scalar:
    """Tokens that the newest tokens of `sequences` sequences attend to, summed, of `context` summed, shape ()."""
    if seen.limit is None:
        return context
    # A window is not linear in the context, so the clipping is done at the mean length.
    return sequences * visible_context(maximum(mean_length(context, sequences), 1.0), seen)


def _both_ways(length: Scalar, seen: Sight) -> Scalar:
    if seen.limit is None:
        return length
    if seen.kind == "chunked":
        return minimum(length, seen.limit)
    # w tokens on either side and itself.
    return minimum(length, 2.0 * seen.limit + 1.0)


def _reached_of_chunk(past: Scalar, chunk: Scalar) -> Scalar:
    return past - chunk * jnp.floor(past / chunk)


def _triangle(length: Scalar) -> Scalar:
    return 0.5 * length * (length + 1.0)


# Indexer of sparse attention, which chooses the tokens to attend to: projections, scores and top-k.


@struct
class Selection:
    """Sparse attention: an indexer scores what is cached, and every query attends to the best of it only.

    Source: DeepSeek-AI, DeepSeek-V3.2-Exp, 2025, section 2.1 (lightning indexer, `stride` 1); with `stride` above 1
    one key stands for a block of tokens (block-sparse attention).
    """

    tokens: Scalar  # cached tokens that a query attends to at most
    heads: Scalar  # of the indexer; every tensor-parallel device has them all
    head_dim: Scalar  # of the indexer's queries and keys
    stride: Scalar  # tokens that one of the indexer's cached keys stands for
    key_outputs: Scalar  # of the projection to its keys: head_dim, or more where keys are pooled with gates
    query_rank: Scalar | None  # width that the indexer's queries are projected from; None: the hidden size
    key_bytes: Scalar  # B per element of a cached key
    weights: WeightFormat  # of its projections
    block: Scalar | None = None  # keys that are chosen or not together, by the best score among them; None: each alone
    scoring: WeightFormat | None = None  # of the products of queries and cached keys; None: as the projections


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
    uncompressed = selection.query_rank is None or query_inputs is None
    inputs = hidden if uncompressed else query_inputs
    return {
        "index_q_proj": Matrix(
            inputs, selection.heads * selection.head_dim, selection.weights, reads_norm=uncompressed
        ),
        "index_k_proj": Matrix(hidden, selection.key_outputs + selection.heads, selection.weights, reads_norm=True),
    }


def indexer_ops(
    selection: Selection,
    hidden: Scalar,
    query_inputs: Scalar | None,
    deployment: Deployment,
    batch: Batch,
    tokens: Scalar,
    count: Scalar,
    paged: bool = False,
) -> Ops:
    """Ops of one layer's indexer in the order they run: every query scores every cached key, and keeps the best.

    An indexer without heads launches nothing: its layer attends to what an earlier one chose.

    Args:
      paged: whether engines read the keys of prompts from their pages, as those of decoding: compressed ones.
    """
    # Layers without an indexer of their own reuse an earlier layer's choice: every op is multiplied by 0.
    activation, runs = deployment.activation_bytes, launched(selection.heads)
    tokens = runs * tokens
    matrices = indexer_matrices(selection, hidden, query_inputs)
    ops: Ops = {}
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
    return with_role(ops, "indexer") | choice_ops(selection, deployment, batch, runs, count, paged)


def choice_ops(
    selection: Selection,
    deployment: Deployment,
    batch: Batch,
    runs: Scalar,
    count: Scalar,
    paged: bool = False,
) -> Ops:
    """Ops of one layer's indexer after its projections: scores and the choice of the best.

    Args:
      runs: 1, or 0 where the layer takes over an earlier one's choice.
      paged: as of `indexer_ops`.
    """
    ops: Ops = {}
    cp = degree(deployment.cp)
    if batch.prefill is not None:
        part = batch.prefill
        new, past = (mean_length(length, part.sequences) for length in (part.tokens, part.past))
        # The indexer scores all cached keys, so it stays quadratic; it is cheap by narrow heads and 8-bit keys.
        pairs = runs * part.sequences * attended_pairs(new, past, Sight(limit=None, kind=None))
        keys = runs * (part.tokens + part.past)
        ops |= _choice("prefill", selection, part.sequences, runs * part.tokens / cp, pairs / cp, keys, count, paged)
    if batch.decode is not None:
        part = batch.decode
        queries = runs * part.sequences * tokens_per_sequence(deployment)
        pairs = queries * mean_length(part.context, part.sequences) / cp
        ops |= _choice("decode", selection, part.sequences, queries, pairs, runs * part.context / cp, count, True)
    return with_role(ops, "indexer")


def _choice(
    part: str,
    selection: Selection,
    sequences: Scalar,
    queries: Scalar,
    pairs: Scalar,
    cached: Scalar,
    count: Scalar,
    paged: bool,
) -> Ops:
    """Scores of `queries` queries of all sequences over `cached` cached tokens, and the choice of the best."""
    compute = (selection.weights if selection.scoring is None else selection.scoring).compute
    scores = pairs / selection.stride
    # Scores of a block leave the kernel as one, its best.
    together = 1.0 if selection.block is None else selection.block
    choices = scores / together
    there = jnp.where(sequences > 0.0, sequences, 1.0)
    shape = ScoreShape(
        sequences=sequences,
        queries=queries / there,
        keys=cached / (there * selection.stride),
        pairs=scores / there,
        heads=selection.heads,
        width=selection.head_dim,
        paged=paged,
    )
    scoring = Kernel(
        kind=f"{part}_attention",
        precision=compute,
        count=count,
        kernels=launched(queries),
        matrix_flops=2.0 * scores * selection.heads * selection.head_dim,
        operand_bytes=OPERAND_BYTES[compute],
        vector_flops=SCORE_FLOPS * scores * selection.heads,
        # Block-sparse selection scores one pooled key per `stride` tokens.
        bytes=cached / selection.stride * selection.head_dim * selection.key_bytes + choices * SCORE_BYTES,
        shape=shape,
    )
    top_k = Kernel(
        kind="elementwise",
        count=count,
        kernels=launched(queries),
        vector_flops=choices * TOP_K_PASSES,
        bytes=choices * TOP_K_PASSES * SCORE_BYTES,
        shape=ChoiceShape(
            rows=queries,
            width=choices / jnp.where(queries > 0.0, queries, 1.0),
            kept=selection.tokens / (selection.stride * together),
        ),
    )
    return in_phase({f"{part}_index_scores": scoring, f"{part}_index_top_k": top_k}, part)


def selection_sight(selection: Selection | None) -> Sight:
    """How far the queries of a layer without a window see: a selection counts like a sliding window, but everything
    stays in reach.
    """
    if selection is None:
        return Sight(limit=None, kind=None)
    return Sight(limit=selection.tokens, kind="selected")


def index_key_bytes(selection: Selection) -> Scalar:
    """B of the indexer's cache that one token takes in one layer."""
    return selection.head_dim * selection.key_bytes / selection.stride
