"""A chip in a few lines: what its author gives, and everything else as a device of its kind has it, scaled to its peak.

The file has no `[accelerator.NAME]`; `TEMPLATE` is one. A peak and a memory are needed, the rest is estimated.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hwspaces.accelerators.entry import HardwareEntry
from hwspaces.quantities.leaves import PRECISIONS
from hwspaces.quantities.units import from_key, nearest, quantity


class Kin(NamedTuple):
    """A device that a chip is like where its author says nothing."""

    name: str  # of the catalogue
    year: int  # of its first sale


KINDS: dict[str, tuple[Kin, ...]] = {
    "gpu": (Kin("A100-SXM-80GB", 2020), Kin("H100-SXM", 2022), Kin("B200-SXM", 2024)),
    "tpu": (Kin("TPU-v4", 2021), Kin("TPU-v5p", 2023), Kin("TPU-v6e", 2024), Kin("TPU-v7x", 2025)),
    "npu": (Kin("Trainium1", 2022), Kin("Trainium2", 2024)),
    "edge": (Kin("Jetson-AGX-Orin", 2022),),
    "wafer": (Kin("WSE-2", 2021), Kin("WSE-3", 2024)),
    "lpu": (Kin("GroqChip1", 2020), Kin("Groq-3", 2026)),
    "dataflow": (Kin("SN40L", 2023),),
    "pim": (Kin("AiMX", 2024),),
}
"""What a chip may be -> devices of that kind, oldest first: threads on many cores; systolic arrays under a compiler;
arrays beside vector engines; a small device with the memory of a board; a mesh of small cores over a wafer; arrays that
stream from SRAM by a schedule; units that a program is laid over; units in the memory itself."""

USUAL_KIND = "gpu"

KEYS = {
    "name": "what it is called; else the file's name",
    "class": f"{', '.join(KINDS)}: what everything that is not given is estimated from; else {USUAL_KIND}",
    "year": "of its first sale: the newest device of the class until then is the one that it is like",
    "like": "an accelerator of the catalogue, in place of class and year",
    "process": 'of its logic, such as "4N"',
    "peak": "dense matrix peak by precision; a single one is of bf16",
    "memory": "capacity and bandwidth, and where wanted technology, beside, near, dies, l2, scratchpad",
    "sram": "on-chip memory in which weights stay as far as they fit",
    "link": "scale-up link: bandwidth per direction; where wanted devices, latency, technology",
    "network": "scale-out link, likewise",
    "power": "limit of the board",
    "price": 'to rent, such as "3 USD/h"',
    "cores": "count, clock, hop_time of a mesh",
    "vector": "fp32: rate of the vector units, of the whole device",
}
"""Key of the file -> what it is. Further tables are those of an accelerator of the catalogue: memory.l2, links, ..."""

OTHERS = ("matrix", "links", "source", "sources", "notes", "date", "vendor", "product", "architecture")
"""Further keys, as an accelerator of the catalogue has them."""

TEMPLATE = """\
# A chip in a few lines. All figures that are not here are estimated from a device of its class, and said to be.
name = "MyChip"
class = "gpu"                       # or tpu, npu, edge, wafer, lpu, dataflow, pim: what all else is estimated from
process = "4N"
peak = { bf16 = "1 PFLOP/s", fp8 = "2 PFLOP/s" }      # dense, of the whole device
memory = { capacity = "144 GB", bandwidth = "6 TB/s" }
link = { bandwidth = "600 GB/s", devices = 8 }        # per direction, to its neighbours
power = "800 W"
"""

LEAST_FED = 0.5
"""Cores per B/s of device memory at least, against those of the device that a chip is like: H20 has 0.49 times as many
as H100, which it is without most of its peak."""

_UNITS = {
    "memory": {"capacity": "B", "bandwidth": "B/s"},
    "link": {"bandwidth": "B/s", "latency": "s", "devices": "1"},
    "network": {"bandwidth": "B/s", "latency": "s", "devices": "1"},
    "cores": {"count": "1", "clock": "Hz", "hop_time": "s"},
    "vector": {"fp32": "FLOP/s"},
}
"""Table -> its quantities and their units, checked before anything is estimated."""

_NEEDED = {"memory": ("capacity", "bandwidth"), "link": ("bandwidth",), "network": ("bandwidth",)}

_OF_ONE_CORE = (
    ("cores.clock", "Hz"),
    ("cores.hop_time", "s"),
    ("cores.compiled", "1"),
    ("cores.asynchronous", "1"),
    ("cores.vector_products", "1"),
)
"""What one core is like, and its unit, as that of the device that a chip is like."""

_LINKS = {"link": "scale_up", "network": "scale_out"}


def schema() -> dict[str, Any]:
    """JSON schema of such a file, for editors that complete and check TOML."""
    quantity_or_text = {"type": ["string", "number"]}

    def quantities(units: Mapping[str, str]) -> dict[str, Any]:
        return {
            name: {"type": "number"}
            if unit == "1"
            else {**quantity_or_text, "description": f"with its unit, in {unit}"}
            for name, unit in units.items()
        }

    peak = {"type": "object", "additionalProperties": False, "properties": dict.fromkeys(PRECISIONS, quantity_or_text)}
    kinds: dict[str, dict[str, Any]] = {
        "class": {"enum": list(KINDS)},
        "year": {"type": "integer", "minimum": 1970, "maximum": 2100},
        "peak": {"anyOf": [peak, quantity_or_text]},
        "power": {"anyOf": [{"type": "object"}, quantity_or_text]},
        "price": quantity_or_text,
        "sram": quantity_or_text,
    }
    for key, units in _UNITS.items():
        kinds[key] = {"type": "object", "properties": quantities(units), "required": list(_NEEDED.get(key, ()))}
    properties = {key: {**kinds.get(key, {"type": "string"}), "description": meaning} for key, meaning in KEYS.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "An accelerator in a few lines",
        "type": "object",
        "properties": {**properties, **{key: {} for key in OTHERS}},
        "required": ["peak", "memory"],
        "additionalProperties": False,
    }


def is_description(tables: Mapping[str, Any]) -> bool:
    """Whether a file describes one chip in this short form."""
    return "accelerator" not in tables and any(key in tables for key in ("peak", "matrix", "memory"))


def problems(tables: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with such a file, in its order; further tables are left to the catalogue's reader."""
    found = []
    for key in tables:
        if key not in KEYS and key not in OTHERS:
            found.append(f"{key} is not known{nearest(key, (*KEYS, *OTHERS))}")
    if "peak" not in tables and "matrix" not in tables:
        found.append('peak is missing; write peak = { bf16 = "1 PFLOP/s" }')
    try:
        peaks = _peaks(tables) or {}
    except ValueError as error:
        peaks = {}
        found.append(str(error))
    if not peaks and ("peak" in tables or "matrix" in tables) and not found:
        found.append('peak has no precision; write peak = { bf16 = "1 PFLOP/s" }')
    for precision, peak in peaks.items():
        if precision not in PRECISIONS:
            found.append(f"peak.{precision} is not known{nearest(precision, PRECISIONS)}")
        elif wrong := _wrong(peak, "FLOP/s", f"peak.{precision}"):
            found.append(wrong)
    if "memory" not in tables:
        found.append('memory is missing; write memory = { capacity = "96 GB", bandwidth = "4 TB/s" }')
    for key, units in _UNITS.items():
        table = tables.get(key)
        if table is None:
            continue
        if not isinstance(table, Mapping):
            found.append(f"{key} = {table!r} is not a table of {' and '.join(units)}")
            continue
        # A memory whose levels are written out has its quantities in the table of its level.
        own = table.get("hbm", table) if key == "memory" else table
        if not isinstance(own, Mapping):
            found.append(f"memory.hbm = {own!r} is not a table")
            continue
        found += [
            f"{key}.{name} is missing"
            for name in _NEEDED.get(key, ())
            if not any(written == name or written.startswith(f"{name}_") for written in own)
        ]
        found += [p for name, unit in units.items() if name in own and (p := _wrong(own[name], unit, f"{key}.{name}"))]
    for key, unit in (("power", "W"), ("price", "USD/s"), ("sram", "B")):
        if key in tables and not isinstance(tables[key], Mapping) and (wrong := _wrong(tables[key], unit, key)):
            found.append(wrong)
    for key in ("name", "process", "like"):
        if not isinstance(tables.get(key, ""), str):
            found.append(f"{key} = {tables[key]!r} is not text")
    for key in ("links", "sources"):
        if not isinstance(tables.get(key, {}), Mapping):
            found.append(f"{key} = {tables[key]!r} is not a table")
        elif key == "links":
            found += [
                f"links.{t} = {v!r} is not a table"
                for t, v in tables.get(key, {}).items()
                if not isinstance(v, Mapping)
            ]
    if str(tables.get("like", "")).lower().partition("#")[0].endswith((".toml", ".json")):
        found.append(f"like = {tables['like']!r} is a file; it is a name of the catalogue")
    kind, year = tables.get("class", USUAL_KIND), tables.get("year")
    if not isinstance(kind, str) or kind not in KINDS:
        found.append(f"class = {kind!r} is not known{nearest(str(kind), KINDS)}")
    if year is not None and (not isinstance(year, int) or not 1970 <= year <= 2100):
        found.append(f"year = {year!r} is not a year from 1970 to 2100")
    return found


def _wrong(value: Any, unit: str, where: str) -> str | None:
    try:
        quantity(value, unit, where)
    except ValueError as error:
        return str(error)
    return None


def _peaks(tables: Mapping[str, Any]) -> dict[str, Any] | None:
    """Peaks by precision as they are written; None where there are none. A key may end in its unit."""
    written = tables.get("peak", tables.get("matrix"))
    if not isinstance(written, Mapping):
        return None if written is None else {"bf16": written}
    peaks: dict[str, Any] = {}
    for key, value in written.items():
        precision, separator, _ = key.partition("_")
        if separator and precision in PRECISIONS:
            _, value = from_key(key, value, "peak", dict.fromkeys(PRECISIONS, "FLOP/s"))
            key = precision
        peaks[key] = value
    return peaks


def kin(tables: Mapping[str, Any]) -> str:
    """The accelerator of the catalogue that such a chip is like: the newest of its class until its year."""
    if "like" in tables:
        return str(tables["like"])
    known = KINDS[tables.get("class", USUAL_KIND)]
    until = [one.name for one in known if one.year <= tables.get("year", known[-1].year)]
    return until[-1] if until else known[0].name


def described(tables: Mapping[str, Any], like: HardwareEntry, path: str) -> tuple[str, dict[str, Any]]:
    """Name and table, in the catalogue's schema, of the chip that a file describes.

    Cores, vector units, caches and, where it is not given, power are those of `like`, in proportion to the peak; what
    is per core or of a technology is as there. Every estimate says so as its source.

    Args:
      tables: the file, without `problems`.
      like: `kin` of it.
      path: of the file.
    """
    table = _given(tables)
    peaks = _peaks(tables) or {}
    scale = _sixteen_bits({name: quantity(peak, "FLOP/s", path) for name, peak in peaks.items()})
    scale /= _sixteen_bits({p: like.figures[f"matrix.{p}"] for p in PRECISIONS if f"matrix.{p}" in like.figures})

    # What is of a technology or of one core is as it is there.
    as_there = f"estimate: as {like.name} has it"
    table.setdefault("architecture", like.architecture)
    if like.process is not None:
        table.setdefault("process", like.process)
    if like.memory is not None:
        table["memory"]["hbm"].setdefault("technology", like.memory)
    estimates: dict[str, tuple[float, str, str]] = {
        leaf: (like.figures[leaf], unit, as_there)
        for leaf, unit in (*_OF_ONE_CORE, *_devices(table))
        if like.figures.get(leaf)
    }
    if "memory.scratchpad.bandwidth" in like.figures:
        estimates["memory.scratchpad.capacity"] = (like.figures["memory.scratchpad.capacity"], "B", as_there)
    for tier, link in table.get("links", {}).items():
        if tier not in like.technologies or "latency" in link:
            continue
        if f"links.{tier}.transport.peers" in like.figures:
            link.setdefault("technology", like.technologies[tier])
        else:
            # Nothing is measured on that technology: a link of it is its latency and how it joins devices.
            estimates[f"links.{tier}.latency"] = (like.figures[f"links.{tier}.latency"], "s", as_there)
            link.setdefault("topology", getattr(like.hardware.links, tier).topology)

    # A larger chip has more cores, each with its vector units and its share of L2; cores of a compiler grow wider.
    # Devices whose peak alone was cut keep the cores that their memory needs.
    in_proportion = f"estimate: as much per FLOP/s of its peak as {like.name} has"
    per_core = f"estimate: as much per core as {like.name} has"
    cores, wide = like.figures["cores.count"], like.figures["cores.compiled"]
    clock = _number(table, "cores.clock", "Hz", path)
    faster = 1.0 if clock is None else clock / like.figures.get("cores.clock", clock)
    bandwidth = _number(table, "memory.hbm.bandwidth", "B/s", path) or 0.0
    fed = LEAST_FED * bandwidth / like.figures["memory.hbm.bandwidth"]
    estimate = cores if wide else max(1.0, float(round(cores * max(scale, fed) / faster)))
    estimates["cores.count"] = (estimate, "1", as_there if wide else in_proportion)
    count = _number(table, "cores.count", "1", path) or estimate
    larger = scale if wide else count * faster / cores
    vector = like.figures["cores.vector_flops"] * cores
    for leaf, unit, value in (
        ("vector.fp32", "FLOP/s", vector),
        ("memory.l2.capacity", "B", like.figures.get("memory.l2.capacity")),
        ("memory.l2.bandwidth", "B/s", like.figures.get("memory.l2.bandwidth")),
    ):
        if value is not None:
            estimates[leaf] = (value * larger, unit, in_proportion if wide else per_core)
    if "power.tdp" in like.figures:
        estimates["power.tdp"] = (like.figures["power.tdp"] * scale, "W", in_proportion)

    sources = dict(table.get("sources", {}))
    for leaf, (value, unit, source) in estimates.items():
        if _fill(table, leaf, value, unit):
            sources[leaf] = source
    return str(tables.get("name", Path(path).stem)), {**table, "status": "hypothetical", "sources": sources}


def estimated(entry: HardwareEntry, like: str) -> str:
    """What was estimated of a chip that is like another, in a sentence."""
    return f"estimates, like {like} of architecture {entry.architecture}: {', '.join(estimates_of(entry))}"


def estimates_of(entry: HardwareEntry) -> tuple[str, ...]:
    """Leaves of the hardware that its file leaves to an estimate."""
    return tuple(path for path in entry.figures if entry.sources.get(path, "").startswith("estimate: "))


def _given(tables: Mapping[str, Any]) -> dict[str, Any]:
    """What the file says, as the catalogue's schema has it."""
    table: dict[str, Any] = {key: tables[key] for key in ("process", "price", *OTHERS) if key in tables}
    table["matrix"] = {name: _text(peak, "FLOP/s") for name, peak in (_peaks(tables) or {}).items()}
    memory = dict(tables["memory"])
    if "hbm" not in memory:
        levels = {key: value for key, value in memory.items() if isinstance(value, Mapping)}
        outer = {key: value for key, value in memory.items() if key not in levels}
        memory = {"hbm": outer, **levels}
    table["memory"] = {key: dict(level) if isinstance(level, Mapping) else level for key, level in memory.items()}
    if "sram" in tables:
        table["memory"]["on_chip"] = {"capacity": _text(tables["sram"], "B"), "keeps_weights": 1}
    table["memory"]["hbm"] = _texts(table["memory"]["hbm"], _UNITS["memory"])
    links = {key: dict(link) for key, link in tables.get("links", {}).items()}
    links |= {tier: _texts(tables[key], _UNITS[key]) for key, tier in _LINKS.items() if key in tables}
    if links:
        table["links"] = links
    if "power" in tables:
        power = tables["power"]
        table["power"] = dict(power) if isinstance(power, Mapping) else {"tdp": _text(power, "W")}
    for key in ("cores", "vector"):
        if key in tables:
            table[key] = _texts(tables[key], _UNITS[key])
    if "price" in table:
        table["price"] = _text(table["price"], "USD/s")
    return table


def _devices(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(f"links.{tier}.devices", "1") for tier in table.get("links", {})]


_SIXTEEN = {"bf16": 1.0, "fp16": 1.0, "fp8": 0.5, "int8": 0.5, "fp6": 0.5, "fp4": 0.25, "int4": 0.25, "tf32": 2.0}


def _sixteen_bits(peaks: Mapping[str, float]) -> float:
    """FLOP/s at 16 bits of a device of these peaks: as given, else by the width of the operands."""
    for precision, times in _SIXTEEN.items():
        if precision in peaks:
            return peaks[precision] * times
    return next(iter(peaks.values()))


def _texts(table: Mapping[str, Any], units: Mapping[str, str]) -> dict[str, Any]:
    return {key: _text(value, units[key]) if key in units else value for key, value in table.items()}


def _text(value: Any, unit: str) -> Any:
    """A number in SI units as text with its unit, as the catalogue's reader takes it; counts stay numbers."""
    return value if isinstance(value, str | Mapping) or unit == "1" else f"{value!r} {unit}"


def _number(table: Mapping[str, Any], path: str, unit: str, where: str) -> float | None:
    value: Any = table
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return None if value is None else quantity(value, unit, f"{where}: {path}")


def _fill(table: dict[str, Any], path: str, value: float, unit: str) -> bool:
    """Set a figure that the table does not have, with or without its unit in the key; whether it was set."""
    *around, leaf = path.split(".")
    inner = table
    for key in around:
        inner = inner.setdefault(key, {})
    if any(key == leaf or key.startswith(f"{leaf}_") for key in inner):
        return False
    inner[leaf] = value if unit == "1" else f"{value!r} {unit}"
    return True
