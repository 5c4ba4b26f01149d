"""Ops at the positions of a table of measured kernels."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from hwspaces.performance.surface import FLAGS, SurfaceTable
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.attention_kernels import fused_attention
from jaxroof.layers.feedforward import ACTIVATION_FLOPS
from jaxroof.layers.linear import OPERAND_BYTES, Matrix, elementwise, projection
from jaxroof.layers.sight import Selection, Sight, attended_pairs, indexer_ops, visible_context
from jaxroof.model import WeightFormat
from jaxroof.op import AttentionShape, Kernel, Ops

ACTIVATION_BYTES = 2.0
"""B per activation element between kernels."""

Row = Mapping[str, Any]
"""Position along every axis, and the table's labels, float scalars."""


class MeasuredOps(NamedTuple):
    """What one measured time is of."""

    before: tuple[Kernel, ...]  # what it includes and the table is not of: quantisation, activation
    own: tuple[Kernel, ...]  # what the table is of; of a whole layer of experts, both products


def measured_ops(table: SurfaceTable, row: Row) -> MeasuredOps:
    """The ops at one position of `table`: those that a model's layer would have, so that times are of the same work.

    Args:
      table: only its kind, precision and which labels it has are looked at.
      row: of the table.

    Raises:
      ValueError: the precision of a product is not known.
    """
    if table.kind in ("elementwise", "copy"):
        return MeasuredOps((), (Kernel(kind="elementwise", count=1.0, kernels=1.0, bytes=row["bytes"]),))
    if table.precision not in OPERAND_BYTES:
        raise ValueError(f"precision = {table.precision!r} must be one of {', '.join(OPERAND_BYTES)}")
    if table.kind in ("linear", "experts"):
        return _product(table, row)
    if table.kind == "expert_layer":
        return _expert_layer(table, row)
    if table.kind in ("prefill_scores", "decode_scores"):
        return MeasuredOps((), (_scores(table, row),))
    op = _attention(table, row)
    # So many bytes pass through the caches before one copy is read again.
    reuse = row["copies"] * op.bytes if "copies" in table.labels else None
    return MeasuredOps((), (dataclasses.replace(op, reuse_bytes=reuse),))


def _weights(table: SurfaceTable, row: Row) -> WeightFormat:
    size = row["weight_bytes"] if "weight_bytes" in table.labels else OPERAND_BYTES[table.precision]
    flags = {name: bool(table.labels.get(name)) for name in FLAGS}
    return WeightFormat(bytes=size, compute=table.precision, scaled=flags["scaled"], dequantised=flags["dequantised"])


def _product(table: SurfaceTable, row: Row) -> MeasuredOps:
    weights, matrices = _weights(table, row), row.get("matrices", 1.0)
    matrix = Matrix(row["k"], row["n"], weights, matrices)
    ops = kernels(projection("product", row["m"] * matrices, matrix, ACTIVATION_BYTES, 1.0, table.kind))
    product = ops.pop("product")
    if "copies" in table.labels:
        product = dataclasses.replace(product, reuse_bytes=row["copies"] * matrix.elements * weights.bytes)
    # What is left of the ops quantises activations, which the time includes or not.
    return MeasuredOps(tuple(ops.values()) if table.labels.get("quantised") else (), (product,))


def kernels(ops: Ops) -> dict[str, Kernel]:
    """The kernels of `ops`: all of them, as one device exchanges nothing."""
    return {name: op for name, op in ops.items() if isinstance(op, Kernel)}


def _expert_layer(table: SurfaceTable, row: Row) -> MeasuredOps:
    """Both products of a layer's experts, quantised, activated and combined: what one fused call does."""
    weights, rows, touched, inner = _weights(table, row), row["m"] * row["matrices"], row["matrices"], row["inner"]
    ups = row["up_projections"] if "up_projections" in table.labels else 2.0
    up, down = Matrix(row["hidden"], ups * inner, weights), Matrix(inner, row["hidden"], weights)
    ops = projection("up", rows, up, ACTIVATION_BYTES, 1.0, "experts", touched, row["tokens"])
    ops["activation"] = elementwise(
        rows,
        reads=up.outputs,
        writes=inner,
        element_bytes=ACTIVATION_BYTES,
        flops=ACTIVATION_FLOPS * inner,
        count=1.0,
        exps=inner,
    )
    ops |= projection("down", rows, down, ACTIVATION_BYTES, 1.0, "experts", touched)
    ops["combine"] = elementwise(
        rows + row["tokens"],
        reads=row["hidden"],
        writes=0.0,
        element_bytes=ACTIVATION_BYTES,
        flops=2.0 * row["hidden"],
        count=1.0,
    )
    before = kernels(ops)
    # One layer runs again and again: its own weights pass before any of them is read again.
    reuse = touched * (up.elements + down.elements) * weights.bytes
    products = tuple(dataclasses.replace(before.pop(name), reuse_bytes=reuse) for name in ("up", "down"))
    return MeasuredOps(tuple(before.values()), products)


def _attention(table: SurfaceTable, row: Row) -> Kernel:
    """Attention core of one device, to all keys or, with `selected`, to so many of them at most."""
    latent, value = bool(table.labels.get("latent")), row["value_dim"] if "value_dim" in table.labels else None
    deployment = Deployment(kv_bytes=row["kv_bytes"], attention_compute=table.precision)
    selected = row["selected"] if "selected" in table.labels else None
    seen = Sight(limit=selected, kind=None if selected is None else "selected")
    if table.kind == "decode_attention":
        new, keys = 1.0, visible_context(row["keys"], seen)
        pairs = keys
    else:
        new = row["queries"]
        keys = row["keys"] if "keys" in row else new
        pairs = attended_pairs(new, keys - new, seen)
    shape = AttentionShape(
        sequences=row["sequences"],
        queries=new,
        keys=keys,
        pairs=pairs,
        heads=row["heads"],
        kv_heads=row["kv_heads"],
        key_width=row["head_dim"],
        value_width=row["head_dim"] if value is None else value,
        kv_bytes=row["kv_bytes"],
        latent=latent,
    )
    return fused_attention(table.kind, deployment, shape, 1.0)


def _scores(table: SurfaceTable, row: Row) -> Kernel:
    """Scores of an indexer: every query of every head against every cached key, as sparse attention has them."""
    selection = Selection(
        tokens=1.0,  # how many are chosen changes no score
        heads=row["heads"],
        head_dim=row["head_dim"],
        stride=1.0,
        key_outputs=row["head_dim"],
        query_rank=None,
        key_bytes=row["kv_bytes"],
        weights=WeightFormat(bytes=OPERAND_BYTES[table.precision], compute=table.precision),
    )
    sequences, new, keys = row["sequences"], row["queries"], row["keys"]
    if table.kind == "decode_scores":
        decode = Decode(sequences=sequences, context=sequences * keys)
        name, batch = "decode_index_scores", Batch(prefill=None, decode=decode, logits=0.0)
        # Several queries of a sequence are its newest token and drafts.
        deployment = Deployment(drafts=new - 1.0)
    else:
        prefill = Prefill(sequences=sequences, tokens=sequences * new, past=sequences * (keys - new))
        name, batch = "prefill_index_scores", Batch(prefill=prefill, decode=None, logits=0.0)
        deployment = Deployment()
    # Projections beside the scores need the width of a layer, whatever it is.
    return kernels(indexer_ops(selection, row["head_dim"], None, deployment, batch, sequences * new, 1.0))[name]
