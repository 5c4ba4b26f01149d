"""Loaders of hardware: accelerators, their prices, efficiency constants and files of measured kernels."""

import functools
import json
import math
import pathlib
import re
import tempfile
import tomllib
from typing import Any

from tests.fuzz.documents import Csv, Raw, Toml
from tests.fuzz.sensible import require_sensible
from tests.fuzz.target import Target, in_file

BLIS = {"H100": {"TFlopsPeak": 989.5, "TFlopsFP8": 1979, "BwPeakTBs": 3.35, "MemoryGiB": 80, "mfuPrefill": 0.5}}
PRICES = 'H100 = "1.9 USD/h"\n[A100]\nprice = "0.5 USD/h"\ndate = 2026-11-02\nsource = "contract 17"\n'
GEMM = "m,k,n,latency_us,mfu\n" + "\n".join(
    f"{m},{k},{n},{100 + m},0.1" for m in (16, 64) for k in (1024, 2048) for n in (512, 4096)
)
MHA = "dtype,kv_dtype,batch_size,kv_len,latency_us,mfu\n" + "\n".join(
    f"bf16,bf16,{batch},{keys},{40 + batch * keys / 100},0.1" for batch in (1, 8) for keys in (1024, 2048)
)
UNITED = "op,gpu,m,n,k,latency_us\nmatmul,h100,64,512,1024,100\nmatmul,h100,128,512,1024,150\ngelu,h100,65536,,,20\n"


def targets() -> list[Target]:
    """What reads hardware."""
    from hwspaces.accelerators.described import KEYS, OTHERS
    from hwspaces.accelerators.schema import TABLES, TEXTS

    words = tuple({key for table in (*TABLES.values(), *TEXTS.values()) for key in table} | {"base", "sources", "date"})
    return [
        Target("hardware", in_file("own.toml", _hardware), accelerators, Toml, words),
        Target("described", in_file("own.toml", _hardware), descriptions, Toml, (*words, *KEYS, *OTHERS)),
        Target("blis", in_file("own.json", _hardware), lambda: [json.dumps(BLIS).encode()], words=("TFlopsPeak",)),
        Target("prices", in_file("own.toml", _prices), lambda: [PRICES.encode()], Toml, ("price", "USD/h", "H100")),
        Target("efficiency", in_file("own.toml", _efficiency), efficiencies, Toml, ("host", "source", "spread")),
        Target("surface", in_file("own.nc", _surface), surfaces, Raw),
        Target("surface_csv", in_file("gemm/h100/data.csv", _imported), lambda: [GEMM.encode()], Csv),
        Target("surface_mha", in_file("mha/decode/h100/32-8-128.csv", _imported), lambda: [MHA.encode()], Csv),
        Target("surface_united", in_file("united.csv", _imported), lambda: [UNITED.encode()], Csv, ("gelu", "h100")),
    ]


def _hardware(path: str) -> None:
    import hwspaces

    entry = hwspaces.hardware(path)
    require_sensible(entry.figures)
    require_sensible(entry.hardware)


def _prices(path: str) -> None:
    from hwspaces.accelerators.load import own_prices

    for price in own_prices(path).values():
        require_sensible(price.usd_per_hour)


def _efficiency(path: str) -> None:
    import hwspaces

    require_sensible(hwspaces.efficiency(path).efficiency, -1e6)


def _surface(path: str) -> None:
    from hwspaces.performance.surface import read_surfaces

    found = read_surfaces(path)
    for table in found.tables:
        require_sensible(table.axes)
    require_sensible(found.bandwidths)


def _imported(path: str) -> None:
    from sweeps.measure.surface_import import WantedRows, imported

    found = imported([pathlib.Path(path)], "auto", WantedRows())
    for table in found.tables:
        require_sensible(table.axes)
        if not all(math.isnan(time) or 0.0 < time < math.inf for time in table.seconds.flat):
            raise AssertionError("a time that cannot be")


@functools.cache
def descriptions() -> list[bytes]:
    """The template, with and without the lines that it leaves out."""
    from hwspaces.accelerators.described import TEMPLATE

    whole = re.sub(r"^# (?=[a-z]+ = )", "", TEMPLATE, flags=re.M)
    return [Toml.text(tomllib.loads(text)) for text in (TEMPLATE, whole)]


def accelerators() -> list[bytes]:
    """Every fifth accelerator of the catalogue as a file of its own, with its file's sources and shared tables."""
    folder = pathlib.Path(__import__("hwspaces").__file__).parent
    found = []
    for path in sorted((*folder.glob("catalogue/*.toml"), *folder.glob("technology/*.toml"))):
        tables: dict[str, Any] = tomllib.loads(path.read_text())
        for i, (name, table) in enumerate(tables.get("accelerator", {}).items()):
            if i % 5 == 0:
                said = json.dumps(table, default=str)
                sources = {key: text for key, text in tables.get("source", {}).items() if f'"{key}"' in said}
                found.append(Toml.text({"source": sources, "accelerator": {name: table}}))
        for kind in tables.keys() - {"source", "accelerator"}:
            own = dict(list(tables[kind].items())[:2])
            found.append(Toml.text({kind: own, "accelerator": {"X": {}}}))
    return found


@functools.cache
def efficiencies() -> list[bytes]:
    """The project's own files."""
    folder = pathlib.Path(__import__("hwspaces").__file__).parent / "efficiencies"
    return [path.read_bytes() for path in sorted(folder.glob("*.toml"))]


@functools.cache
def surfaces() -> list[bytes]:
    """A small file of measured kernels."""
    import numpy as np

    from hwspaces.performance.surface import SurfaceTable, write_surfaces

    axes = {"m": np.array([1.0, 8.0]), "n": np.array([512.0]), "k": np.array([1024.0, 2048.0])}
    table = SurfaceTable("gemm", "linear", "bf16", axes, np.array([[[1e-5, 2e-5]], [[3e-5, 4e-5]]]), {"copies": 6.0})
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "a.nc")
        write_surfaces(path, [table], {"device": "H100"}, {"copy_bandwidth": 2e12})
        return [path.read_bytes()]
