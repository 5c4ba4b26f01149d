"""Ops at the positions of a table of measured kernels."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces.surface import FLAGS, SurfaceTable
from jaxroof.batch import Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.attention import Attention, decode_attention, prefill_attention
from jaxroof.layers.linear import OPERAND_BYTES, Matrix, projection
from jaxroof.model import WeightFormat
from jaxroof.op import Kernel

ACTIVATION_BYTES = 2.0
"""B per activation element between kernels."""


def node_ops(table: SurfaceTable, row: Mapping[str, Any]) -> tuple[Kernel, ...]:
    """The op at one position of `table`, after the one that quantises its activations where the time includes it.

    Args:
      table: only its kind, precision and which labels it has are looked at.
      row: position along every axis, and the table's labels, float scalars.

    Raises:
      ValueError: the precision of a product is not known.
    """
    if table.kind == "elementwise":
        return (Kernel(kind="elementwise", count=1.0, kernels=1.0, bytes=row["bytes"]),)
    if table.precision not in OPERAND_BYTES:
        raise ValueError(f"precision = {table.precision!r} must be one of {', '.join(OPERAND_BYTES)}")
    if table.kind == "linear":
        return _product(table, row)
    op = _attention(table, row)
    reuse = row["copies"] * op.bytes if "copies" in table.labels else None
    return (dataclasses.replace(op, reuse_bytes=reuse),)


def _product(table: SurfaceTable, row: Mapping[str, Any]) -> tuple[Kernel, ...]:
    flags = {name: bool(table.labels.get(name)) for name in FLAGS}
    size = row["weight_bytes"] if "weight_bytes" in table.labels else OPERAND_BYTES[table.precision]
    weights = WeightFormat(
        bytes=size, compute=table.precision, scaled=flags["scaled"], dequantised=flags["dequantised"]
    )
    ops = projection("product", row["m"], Matrix(row["k"], row["n"], weights), ACTIVATION_BYTES, 1.0)
    product = ops.pop("product")
    if "copies" in table.labels:
        product = dataclasses.replace(product, reuse_bytes=row["copies"] * row["k"] * row["n"] * size)
    return (*(ops.values() if flags["quantised"] else ()), product)


def _attention(table: SurfaceTable, row: Mapping[str, Any]) -> Kernel:
    weights = WeightFormat(bytes=2.0, compute="bf16")
    attention = Attention(
        heads=row["heads"],
        kv_heads=row["kv_heads"],
        head_dim=row["head_dim"],
        value_dim=row["head_dim"],
        window=None,
        qkv=weights,
        output=weights,
    )
    deployment = Deployment(kv_bytes=row["kv_bytes"], attention_compute=table.precision)
    sequences = row["sequences"]
    if table.kind == "decode_attention":
        decode = Decode(sequences=sequences, context=sequences * row["keys"])
        ops = decode_attention(attention, deployment, decode, 1.0)
    else:
        prefill = Prefill(sequences=sequences, tokens=sequences * row["queries"], past=0.0)
        ops = prefill_attention(attention, deployment, prefill, 1.0)
    op = ops[table.kind]
    assert isinstance(op, Kernel)  # one device: no keys are exchanged
    return op
