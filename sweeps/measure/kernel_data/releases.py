"""Tables of kernels in both layouts of their collector: files and columns of newer releases under the older names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sweeps.measure.kernel_data.group import require_columns, table


class Newer(NamedTuple):
    """The same table as newer releases of the collector write it."""

    file: str
    columns: Mapping[str, str]  # name there -> name in the older table; others are called alike


_ATTENTION = {
    "batch_size": "batch",
    "num_heads": "n_heads",
    "num_key_value_heads": "n_kv_heads",
    "kv_cache_dtype": "kv_dtype",
    "window_size": "window",
}

NEWER = {
    "aic_gemm.parquet": Newer("gemm__gemm.parquet", {"gemm_dtype": "dtype"}),
    "aic_attention_context.parquet": Newer(
        "attention__context_attention.parquet", {**_ATTENTION, "isl": "seq_q", "step": "kv_past"}
    ),
    "aic_attention_generation.parquet": Newer("attention__generation_attention.parquet", _ATTENTION),
    "aic_moe.parquet": Newer("moe__moe.parquet", {"moe_dtype": "dtype"}),
}
"""File of the older layout -> the newer one."""


def kernel_table(folder: Path, file: str, columns: tuple[str, ...]) -> Any:
    """Rows of one kind of kernel, of whichever layouts `folder` has, in the columns of the older one.

    Args:
      file: of the older layout.
      columns: that are needed, by their older names.

    Raises:
      ValueError: one line: neither file is there, one is unreadable, or a column is missing.
    """
    newer = NEWER.get(file)
    frames = []
    if newer is None or (folder / file).exists() or not (folder / newer.file).exists():
        frames.append(table(folder / file, columns))
    if newer is not None and (folder / newer.file).exists():
        frames.append(_renamed(table(folder / newer.file, ()), newer, folder / newer.file, columns))
    if len(frames) == 1:
        return frames[0]
    import pandas

    return pandas.concat(frames, ignore_index=True)


def _renamed(frame: Any, newer: Newer, path: Path, columns: tuple[str, ...]) -> Any:
    """A newer table by the older names."""
    frame = frame.rename(columns=dict(newer.columns))
    # A decoding step attends to what is in the cache before and to its own new token.
    if {"step", "isl"} <= set(frame.columns):
        frame = frame.assign(kv_len=frame.step + frame.isl)
    require_columns(frame, columns, path)
    return frame
