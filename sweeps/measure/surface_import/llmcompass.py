"""Measurements as LLMCompass keeps them: matmul and GELU csvs without a header, or one csv that unites them."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from sweeps.measure.kernel_data.group import require_columns, table
from sweeps.measure.surface_import.kernel_rows import (
    MeasuredFile,
    WantedRows,
    counted,
    header,
    listed,
    numbers,
    of_device,
)

PRECISION = "fp16"
"""Of all its measurements."""

STREAMED = "gelu"
"""The operator whose times stand for element-wise kernels: it reads and writes every element once."""

STREAM_BYTES = 4.0
"""B that one element of it moves: read and written at 16 bits."""

_NAME = re.compile(r"(matmul|gelu|softmax|layernorm)_(.+)$")


def recognised(path: Path) -> bool:
    """Whether `path` looks like such a file: by its name or header."""
    if path.suffix != ".csv":
        return False
    return bool(_NAME.match(path.stem)) or header(path)[:2] == ["op", "gpu"]


def measured(path: Path, wanted: WantedRows) -> MeasuredFile:
    """Rows of one device in the file.

    Raises:
      ValueError: one line: a column is missing, a row has no numbers, there are several devices and none is chosen.
    """
    match = _NAME.match(path.stem)
    frame = _original(path, *match.groups()) if match else table(path, ())
    require_columns(frame, ("op", "gpu", "m", "n", "k", "latency_us"), path)
    frame, device = of_device(frame, wanted.gpu, path)
    rows = []
    products = frame[frame["op"] == "matmul"]
    if len(products):
        rows.append(listed(products, "linear", PRECISION, {}, {name: name for name in ("m", "n", "k")}, path))
    streams = frame[frame["op"] == STREAMED]
    if len(streams):
        streams = streams.assign(bytes=STREAM_BYTES * numbers(streams, "m", path))
        rows.append(listed(streams, "elementwise", PRECISION, {}, {"bytes": "bytes"}, path))
    left = counted(frame[~frame["op"].isin(["matmul", STREAMED])]["op"])
    return MeasuredFile(tuple(rows), device, {"source": f"LLMCompass, {path.name}"}, tuple(left))


def _original(path: Path, op: str, device: str) -> Any:
    """A file without a header: `m, n, k, 0.19ms, 101.7Tflops`, or a shape and thousand million elements per second."""
    import pandas

    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from None
    rows = []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split(",")]
        try:
            if op == "matmul":
                m, n, k = map(float, cells[:3])
                # Products are in ms, the common table in us.
                rows.append((op, device, m, n, k, float(cells[3].removesuffix("ms")) * 1e3))
            else:
                shape, rate = [float(cell) for cell in cells[:-1]], float(cells[-1])
                elements = float(np.prod(shape))
                # Shapes of fewer than three dimensions are filled up with NaN.
                first, second, third = (shape + [np.nan] * 3)[:3]
                # Rates are in 1e9 elements/s: elements over rate is in ns, a thousandth of it in us.
                rows.append((op, device, first, second, third, elements / rate * 1e-3))
        except (ValueError, IndexError, ZeroDivisionError):
            raise ValueError(f"{path}: row {number}: {line!r} is not a row of {op}") from None
    return pandas.DataFrame(rows, columns=["op", "gpu", "m", "n", "k", "latency_us"])
