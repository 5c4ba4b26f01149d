"""A chip in a few lines: what its author gives, and everything else as a device of its kind has it, scaled to its peak.

The file has no `[accelerator.NAME]`; `TEMPLATE` is one. A peak and a memory are needed, the rest is estimated.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hwspaces.accelerators import schema
from hwspaces.accelerators.entry import HardwareEntry
from hwspaces.accelerators.schema import TABLES, with_units
from hwspaces.quantities.leaves import PRECISIONS
from hwspaces.quantities.units import formatted, from_key, nearest, quantity


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
    "link": "scale-up link: its bandwidth per direction, or a table of bandwidth, devices, latency, technology",
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
# A chip in a few lines. What is not here is estimated from a device of its class, and every answer says so.
name = "MyChip"
class = "gpu"                                     # or tpu, npu, edge, wafer, lpu, dataflow, pim
process = "4N"                                    # of its logic, for area, energy and cost
peak = { bf16 = "1 PFLOP/s", fp8 = "2 PFLOP/s" }  # dense, of the whole device
memory = { capacity = "144 GB", bandwidth = "6 TB/s" }  # HBM, or SRAM where there is no other
link = { bandwidth = "600 GB/s", devices = 8 }    # to its neighbours, per direction
power = "800 W"                                   # limit of the board

# price = "3 USD/h"                               # to rent
# network = { bandwidth = "50 GB/s" }             # beyond the neighbours
# sram = "2 GB"                                   # on chip, in which weights stay
# cores = { count = 144, clock = "1.8 GHz" }
# vector = { fp32 = "60 TFLOP/s" }
"""

SCHEMA_FILE = "hardware.schema.json"
"""What a template calls the schema of such files, where it is in the working folder."""


def template() -> str:
    """`TEMPLATE`, with a line for editors where the folder has the schema that it names."""
    return f"#:schema ./{SCHEMA_FILE}\n{TEMPLATE}" if Path(SCHEMA_FILE).is_file() else TEMPLATE


LEAST_FED = 0.5
"""Cores per B/s of device memory at least, against those of the device that a chip is like: H20 has 0.49 times as many
as H100, which it is without most of its peak."""

TABLES_OF: dict[str, tuple[str, tuple[str, ...]]] = {
    "peak": ("matrix", ()),
    "matrix": ("matrix", ()),
    "link": ("links.scale_up", ("bandwidth",)),
    "network": ("links.scale_out", ("bandwidth",)),
    "links": ("links", ()),
    "power": ("power", ()),
    "cores": ("cores", ()),
    "vector": ("vector", ()),
}
"""Key -> the table of an accelerator of the catalogue that it stands for, and what that must have."""

SINGLE = {
    **{"peak": "FLOP/s", "matrix": "FLOP/s", "link": "B/s", "network": "B/s"},
    **{"power": "W", "price": "USD/s", "sram": "B"},
}
"""Key -> unit of a single quantity that may stand there."""

MOST_FED = 32.0
"""B/s of device memory per FLOP/s at most, against those of the device that a chip is like: H20 has 8 times as many as
H100, and memories of SRAM 100 times as many or more, from which no number of a GPU's cores follows. Ours."""

_OF_ONE_CORE = (
    ("cores.clock", "Hz"),
    ("cores.hop_time", "s"),
    ("cores.compiled", "1"),
    ("cores.asynchronous", "1"),
    ("cores.vector_products", "1"),
)
"""What one core is like, and its unit, as that of the device that a chip is like."""

_LINKS = {"link": "scale_up", "network": "scale_out"}


def is_description(tables: Mapping[str, Any]) -> bool:
    """Whether a file describes one chip in this short form."""
    return "accelerator" not in tables and any(key in tables for key in ("peak", "matrix", "memory"))


def problems(tables: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with such a file, a line each, in its order."""
    found = []
    if "peak" not in tables and "matrix" not in tables:
        found.append('peak is missing; write peak = { bf16 = "1 PFLOP/s" }')
    if "memory" not in tables:
        own = "a chip whose only memory is SRAM has it there: " if "sram" in tables else "write "
        found.append(f'memory is missing; {own}memory = {{ capacity = "96 GB", bandwidth = "4 TB/s" }}')
    for key, value in tables.items():
        found += _problems(key, value)
    return found


def _problems(key: str, value: Any) -> list[str]:
    """What is wrong with one key of the file."""
    if key not in KEYS and key not in OTHERS:
        return [f"{key} is not known{nearest(key, (*KEYS, *OTHERS))}"]
    if key == "memory":
        return _memory_problems(value)
    if key in TABLES_OF:
        path, needed = TABLES_OF[key]
        if isinstance(value, Mapping):
            missing = [f"{key}.{name} is missing" for name in needed if not _written(value, name)]
            empty = ['peak has no precision; write peak = { bf16 = "1 PFLOP/s" }'] if path == "matrix" else []
            return (schema.problems(value, path, key, bare=True) if value else empty) + missing
        # A single quantity is short for the one that most files give.
        if key not in SINGLE:
            return [f"{key} = {value!r} is not a table of {', '.join(TABLES[path]) or 'links by their tier'}"]
    if key in SINGLE:
        return [wrong] if (wrong := _wrong(value, SINGLE[key], key)) else []
    if key in ("name", "process", "like") and not isinstance(value, str):
        return [f"{key} = {value!r} is not text"]
    if key == "like" and value.lower().partition("#")[0].endswith((".toml", ".json")):
        return [f"like = {value!r} is a file; it is a name of the catalogue"]
    if key == "class" and (not isinstance(value, str) or value not in KINDS):
        return [f"class = {value!r} is not known{nearest(str(value), KINDS)}"]
    if key == "year" and (not isinstance(value, int) or not 1970 <= value <= 2100):
        return [f"year = {value!r} is not a year from 1970 to 2100"]
    if key == "sources" and not isinstance(value, Mapping):
        return [f"sources = {value!r} is not a table"]
    return []


def _memory_problems(value: Any) -> list[str]:
    """What is wrong with the memories: those of the device itself, or every level in a table of its own."""
    if not isinstance(value, Mapping):
        return [f'memory = {value!r} is not a table; write memory = {{ capacity = "96 GB", bandwidth = "4 TB/s" }}']
    device, levels = _levels(value)
    if not isinstance(device, Mapping):
        return [f"memory.hbm = {device!r} is not a table"]
    missing = [f"memory.{name} is missing" for name in ("capacity", "bandwidth") if not _written(device, name)]
    return [
        *schema.problems(device, "memory.hbm", "memory", bare=True),
        *missing,
        *schema.problems(levels, "memory", "memory", bare=True),
    ]


def _levels(memory: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The table of the device's memory, and the tables and figures beside it."""
    if "hbm" in memory:
        return memory["hbm"], {key: value for key, value in memory.items() if key != "hbm"}
    beside = {key: value for key, value in memory.items() if isinstance(value, Mapping) or key in TABLES["memory"]}
    return {key: value for key, value in memory.items() if key not in beside}, beside


def _written(table: Mapping[str, Any], name: str) -> bool:
    """Whether a figure is there, with or without its unit in the key."""
    return any(key == name or key.startswith(f"{name}_") for key in table)


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
    if fed > LEAST_FED * MOST_FED * scale and not wide and _number(table, "cores.count", "1", path) is None:
        times = f"{fed / LEAST_FED / scale:,.0f} times as much per FLOP/s of its peak as {like.name}"
        raise ValueError(
            f"{path}: memory.bandwidth = {formatted(bandwidth, 'B/s')} is {times}, from which cores cannot be "
            "estimated; a chip whose memory is SRAM is of class wafer, lpu or dataflow, or give cores.count"
        )
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
    table["matrix"] = dict(_peaks(tables) or {})
    device, levels = _levels(tables["memory"])
    table["memory"] = {"hbm": dict(device), **levels}
    if "sram" in tables:
        table["memory"]["on_chip"] = {"capacity": tables["sram"], "keeps_weights": 1}
    links = {key: dict(link) for key, link in tables.get("links", {}).items()}
    for key, tier in _LINKS.items():
        if key in tables:
            link = tables[key]
            links[tier] = dict(link) if isinstance(link, Mapping) else {"bandwidth": link}
    if links:
        table["links"] = links
    if "power" in tables:
        power = tables["power"]
        table["power"] = dict(power) if isinstance(power, Mapping) else {"tdp": power}
    for key in ("cores", "vector"):
        if key in tables:
            table[key] = dict(tables[key])
    return with_units(table)


def _devices(table: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(f"links.{tier}.devices", "1") for tier in table.get("links", {})]


_SIXTEEN = {"bf16": 1.0, "fp16": 1.0, "fp8": 0.5, "int8": 0.5, "fp6": 0.5, "fp4": 0.25, "int4": 0.25, "tf32": 2.0}


def _sixteen_bits(peaks: Mapping[str, float]) -> float:
    """FLOP/s at 16 bits of a device of these peaks: as given, else by the width of the operands."""
    for precision, times in _SIXTEEN.items():
        if precision in peaks:
            return peaks[precision] * times
    return next(iter(peaks.values()))


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
