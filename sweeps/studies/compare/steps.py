"""Prices of steps at many places at once, on NumPy: tables of few nodes and lines between them."""

import dataclasses

import numpy as np

from jaxroof.batch import Batch, Encode
from jaxroof.efficiency import Efficiency
from jaxroof.model import Model
from jaxroof.numerics.struct import Array, Scalar, existing
from jaxroof.prices.prices import MicroBatch
from jaxroof.prices.tables import OpKinds, Parts
from sweeps.studies.compare.places import PlaceColumns

ROWS = np.array(
    [*(2.0 ** np.arange(0.0, 6.0)), *(2.0 ** np.arange(6.0, 12.0, 0.25)), *(2.0 ** np.arange(12.0, 21.0, 0.5))]
)
"""Rows of a step's GEMMs: closest where a GEMM goes from reading weights to computing."""

SEQUENCES = 2.0 ** np.arange(0.0, 13.0)
"""Sequences that decode, or that sample a token."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tables:
    """Cost of a micro-batch's parts at the nodes, shape [places, nodes, quantities] each; the host's time in s last."""

    parts: Parts
    rows: Array
    decode: Array
    logits: Array
    host: Array
    encoder: Array | None  # without the host; None: it has no work
    encode: Encode | None  # of every request


def tables(
    group: PlaceColumns,
    model: Model,
    efficiency: Efficiency,
    context: float,
    most_rows: float,
    kinds: list[OpKinds] | None,
    encode: Encode | None = None,
) -> Tables:
    """Tables of the places of a group, whose sequences attend to `context` tokens each. Inside
    `jaxroof.numerics.arrays.eager`.

    Args:
      most_rows: of a step.
      kinds: as `Parts` takes them.
      encode: of every request; None: the encoder has no work.
    """
    parts = Parts(group.hardware, model, group.deployment, efficiency, kinds)
    rows = ROWS[: np.searchsorted(ROWS, most_rows) + 1]

    def table(values: Array, nodes: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(np.broadcast_to(values, (*parts.lanes, 1, len(nodes), values.shape[-1]))[:, 0])

    return Tables(
        parts=parts,
        rows=table(parts.sums("rows", rows=rows), rows),
        decode=table(parts.sums("decode", decoding=(SEQUENCES, SEQUENCES * context)), SEQUENCES),
        logits=table(parts.sums("logits", logits=SEQUENCES), SEQUENCES),
        host=table(parts.host(SEQUENCES), SEQUENCES),
        encoder=None if encode is None else table(parts.encoder(SEQUENCES, encode), SEQUENCES),
        encode=encode,
    )


def micro_batch_cost(of: Tables) -> MicroBatch:
    """Cost of a micro-batch at the places of the tables; a batch's numbers have shape [places, n, m], or broadcast."""

    def cost(batch: Batch, rows: Scalar) -> tuple[Array, Array]:
        prompt, decoding = existing(batch.prefill), existing(batch.decode)
        spent = _read(ROWS[: of.rows.shape[1]], of.rows, rows)
        some = np.asarray(decoding.sequences) > 0
        attention = _read(SEQUENCES, of.decode, np.where(some, decoding.sequences, 1.0))
        spent = spent + np.where(some[..., None], attention, 0.0)
        sampled = _read(SEQUENCES, of.logits, batch.logits)
        spent = spent + sampled * np.minimum(batch.logits, 1.0)[..., None]
        if batch.encode is not None:
            begun = batch.encode.tokens / existing(of.encode).tokens
            spent = spent + _read(SEQUENCES, of.encoder, begun) * np.minimum(begun, 1.0)[..., None]
        work = np.asarray(prompt.tokens) > 0
        if of.parts.has("prompt") and work.any():
            numbers = (prompt.sequences, 1.0), (prompt.tokens, 1.0), (prompt.past, 0.0)
            lengths = tuple(np.where(work, length, least) for length, least in numbers)
            spent = spent + np.where(work[..., None], of.parts.sums("prompt", prompt=lengths, rows=rows), 0.0)
        if of.parts.has("all"):
            lengths = prompt.sequences, prompt.tokens, prompt.past
            context = decoding.sequences, decoding.context
            spent = spent + of.parts.sums("all", prompt=lengths, decoding=context, logits=batch.logits, rows=rows)
        return spent, _read(SEQUENCES, of.host, batch.logits)[..., 0]

    return cost


def _read(nodes: np.ndarray, table: np.ndarray, values: Scalar) -> np.ndarray:
    """Entries of a table at values of shape [places, n, m], linear between nodes; shape [places, n, m, quantities]."""
    at = np.clip(values, nodes[0], nodes[-1])
    below = np.clip(np.searchsorted(nodes, at, side="right") - 1, 0, len(nodes) - 2)
    share = ((at - nodes[below]) / (nodes[below + 1] - nodes[below]))[..., None]
    place = np.arange(len(table))[:, None, None] if len(at) == len(table) else np.zeros((1, 1, 1), int)
    if len(at) == 1 < len(table):
        below, place = np.broadcast_to(below, (len(table), *below.shape[1:])), np.arange(len(table))[:, None, None]
    return table[place, below] * (1.0 - share) + table[place, below + 1] * share
