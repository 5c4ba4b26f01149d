"""Figures that follow from an accelerator's others: rates per clock, link latencies, vector rate of one core."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from hwspaces.accelerators.energy import Technologies
from hwspaces.accelerators.link_technology import link_technology
from hwspaces.quantities.units import formatted, from_key, nearest, positive
from jaxroof.hardware import TOPOLOGIES
from jaxroof.numerics.struct import given

ARCHITECTURE = {
    "l2": "B/clock",  # all cores together
    "scratchpad": "B/clock/core",
    "exp": "1/clock/core",
    "registers": "B/core",
}
"""Plain keys of an `[architecture.NAME]` table -> unit."""

SWITCHES = ("asynchronous", "tensor_memory", "wide_waves", "narrow_waves", "register_copies")
"""Keys of the same table that are leaves of the cores as they stand."""

PLAIN_LINK = {
    "oversubscription": (1.0, "a full fat tree, or no second switch"),
    "reduces": (0.0, "no reduction in the switch"),
    "axes": (1.0, "unused: no torus of several axes"),
}
"""Leaf of a link -> its value where nothing is said, and what that means."""

ASSUMPTION = "assumption"
"""What the text of a source begins with when no source gives the figure."""

_PER_CLOCK = {  # key of an architecture -> leaf it gives when multiplied with the clock, and how to say so
    "l2": ("memory.l2.bandwidth", "B per clock"),
    "scratchpad": ("memory.scratchpad.bandwidth", "B per clock and core"),
    "exp": ("cores.exp_rate", "per clock and core"),
}


@dataclasses.dataclass(frozen=True)
class Shared:
    """Tables that accelerators refer to by name: sources, architectures and link technologies."""

    sources: Mapping[str, str]
    architectures: Mapping[str, Mapping[str, Any]]
    links: Mapping[str, Mapping[str, Any]]
    energy: Technologies
    silicon: Mapping[str, Mapping[str, Mapping[str, Any]]] = dataclasses.field(
        default_factory=dict
    )  # kind -> name -> table

    def source(self, text: str) -> str:
        """The source that a reference stands for; text that is no reference stands for itself."""
        return self.sources.get(text, text)


@dataclasses.dataclass
class DerivedFigures:
    """Figures of one accelerator so far: plain path -> SI value, its source, and text such as a link's technology."""

    values: dict[str, float]
    sources: dict[str, str]
    texts: dict[str, str]

    def add(self, path: str, value: float, source: str) -> None:
        """One more figure, unless the file gave it."""
        if path not in self.values:
            self.values[path], self.sources[path] = value, source


def clocked(figures: DerivedFigures, shared: Shared, where: str) -> list[str]:
    """Add what the architecture gives per clock and per core; returns what had to be assumed.

    Without a clock only the registers are known; without such an architecture nothing is.

    Raises:
      ValueError: one line, when the architecture's table has an unknown key or a wrong value.
    """
    name = figures.texts.get("architecture")
    if name is None:
        return []
    if name not in shared.architectures:
        return [f"no figures per clock for the architecture {name!r}: rates that are not given are unknown"]
    table = shared.architectures[name]
    # All other keys are amounts per clock, or per clock and core, which end in their units.
    own = {k: v for k, v in table.items() if k not in ("source", "sources", "notes", *SWITCHES)}
    known = dict(from_key(k, v, f"{where}: architecture.{name}", ARCHITECTURE) for k, v in own.items())
    sources = {key: shared.source(table.get("sources", {}).get(key, table.get("source", ""))) for key in known}
    if "registers" in known:
        figures.add("memory.register_capacity", known["registers"], sources["registers"])
    # Features of the cores, for those that have them.
    for name in SWITCHES:
        if name in table:
            source = shared.source(table.get("sources", {}).get(name, table.get("source", "")))
            figures.add(f"cores.{name}", positive(table[name], f"{where}: {name}"), source)
    clock, assumed = figures.values.get("cores.clock"), []
    # Rate in SI units = amount per clock x clock; where the file gives the rate, that stays.
    for key, (path, per) in _PER_CLOCK.items():
        if key not in known or clock is None or path in figures.values:
            continue
        at = f"{formatted(clock, 'Hz', 4)} ({figures.sources['cores.clock']})"
        figures.add(path, known[key] * clock, f"{known[key]:g} {per} ({sources[key]}) x {at}")
        if sources[key].startswith(ASSUMPTION):
            assumed.append(f"{path}: {known[key]:g} {per}, {sources[key]}")
    return assumed


def linked(figures: DerivedFigures, shared: Shared, where: str) -> list[str]:
    """Add what each link's technology says: latency, topology, what collectives lose; returns what was assumed.

    Raises:
      ValueError: one line, when a link lacks its technology and latency, or its devices, or the technology's table
        has an unknown key, a wrong value or half of a transport.
    """
    assumed = []
    for tier in ("links.scale_up", "links.scale_out", "links.cluster"):
        technology = figures.texts.get(f"{tier}.technology")
        leaves = [leaf for leaf in ("bandwidth", "latency", "devices") if f"{tier}.{leaf}" in figures.values]
        # The device has no links of this tier.
        if not leaves and technology is None:
            continue
        for leaf in ("bandwidth", "devices"):
            if leaf not in leaves:
                raise ValueError(f"{where}.{tier}: {leaf} is missing; a link needs bandwidth and devices")
        # Nothing is measured on an unknown technology: it needs a latency of its own, and its collectives reach the
        # bandwidth.
        if technology is None or technology not in shared.links:
            if "latency" not in leaves:
                near = nearest(technology or "", shared.links)
                raise ValueError(
                    f"{where}.{tier}: technology = {technology!r} is not known; latency_us is missing{near}"
                )
            assumed.append(f"{tier}: nothing measured about {technology or 'its technology'}: collectives lose nothing")
            _add_plain(figures, tier)
            continue
        table = link_technology(technology, shared.links, where)
        topology = figures.texts.setdefault(f"{tier}.topology", table.topology)
        if topology not in TOPOLOGIES:
            raise ValueError(f"{where}.{tier}: topology = {topology!r} is not known{nearest(topology, TOPOLOGIES)}")
        if "latency" not in leaves and "latency" not in table.values:
            raise ValueError(f"{where}: link.{technology}: latency_us is missing")
        for path, value in table.values.items():
            # Only switches reduce: devices of the same technology in a ring or a torus do without.
            if path != "reduces" or topology == "switched":
                figures.add(f"{tier}.{path}", value, shared.source(table.sources[path]))
        _add_plain(figures, tier)
        if table.assumed is not None:
            assumed.append(f"{tier}: {technology}: {table.assumed}")
    return assumed


def _add_plain(figures: DerivedFigures, tier: str) -> None:
    """Add the usual figures of a link, where nothing says otherwise."""
    for leaf, (value, source) in PLAIN_LINK.items():
        figures.add(f"{tier}.{leaf}", value, source)


EXP_FLOPS = 16.0
"""Vector FLOP of an exponential that no special-function unit computes; ours: range reduction, a polynomial of degree
five and the scaling by a power of two are eight multiply-adds."""


def exponentials(figures: DerivedFigures) -> list[str]:
    """Add the rate of exponentials that a user's device does not say: on its vector units; returns the assumption.

    Nothing where the vector rate is unknown or of integers, as `vectored` has left it.
    """
    if "cores.exp_rate" in figures.values or "vector.int8" in figures.values:
        return []
    rate = figures.values["cores.vector_flops"] / EXP_FLOPS
    said = f"assumption: on the vector units, {EXP_FLOPS:g} FLOP each; no special-function unit is given"
    figures.add("cores.exp_rate", rate, said)
    return [f"cores.exp_rate: {formatted(rate, '1/s')}, {said}"]


ON_VECTOR_UNITS = 1.05
"""Peak of products in float32 over the vector rate up to which they run on the vector units."""

POWER_OF_TWO = 0.01
"""How far a width may be from a power of two that it is taken for: peaks are printed with three or four digits."""


def widened(figures: DerivedFigures, shared: Shared, where: str) -> list[str]:
    """Add the matrix FLOP per clock of one core by precision: peak / (cores x clock), or the power of two within 1 %.

    Nothing where the number of cores or the clock is unknown, and of products in float32 that run on the vector units.
    Returns nothing: nothing is assumed.
    """
    count, clock = (figures.values.get(path) for path in ("cores.count", "cores.clock"))
    if clock is None or count is None or figures.sources["cores.count"] == ASSUMPTION:
        return []
    for path in [path for path in figures.values if path.startswith("matrix.")]:
        # Products in float32 at about the vector rate run on the vector units and tell no width of matrix units.
        if path == "matrix.fp32" and figures.values[path] <= ON_VECTOR_UNITS * figures.values.get("vector.fp32", 0.0):
            continue
        # Peak = cores x clock x FLOP per clock and core, solved for the last.
        ratio = figures.values[path] / (count * clock)
        # Widths of matrix units are powers of two, which a peak printed with few digits meets only nearly.
        power_of_two = 2.0 ** round(math.log2(ratio))
        width = power_of_two if abs(ratio / power_of_two - 1.0) <= POWER_OF_TWO else ratio
        said = f"{formatted(figures.values[path], 'FLOP/s', 4)} over {count:g} cores x {formatted(clock, 'Hz', 4)}"
        figures.add(f"cores.matrix_flops_per_clock.{path.removeprefix('matrix.')}", width, said)
    return []


def vectored(figures: DerivedFigures, shared: Shared, where: str) -> list[str]:
    """Add the vector rate of one core, which is the rate of float32 products too where matrix units have none.

    Vector units whose rate is given as `int8` have no float32, and nor has the device.

    Returns what had to be assumed: one core, or a share of the matrix peak.

    Raises:
      ValueError: one line, when the file gives neither a vector rate nor such a share, or floating point beside
        vector units of integers.
    """
    assumed = []
    if "cores.count" not in figures.values:
        figures.add("cores.count", 1.0, ASSUMPTION)
        assumed.append("number of cores unknown: the whole device is taken as one core")
    count = figures.values["cores.count"]
    integers = "vector.int8" in figures.values
    rate = "vector.int8" if integers else "vector.fp32"
    total, share = figures.values.get(rate), figures.values.get("vector.fraction_of_matrix")
    if total is None and share is None:
        raise ValueError(f"{where}.vector: fp32_TFLOPs, of the whole device, is missing; else give fraction_of_matrix")
    if integers:
        others = [path for path in figures.values if path.startswith(("vector.", "matrix.")) and ".int" not in path]
        if others:
            raise ValueError(f"{where}.vector: int8 is of a device without floating point, but {others[0]} is given")
    source = figures.sources[rate if total is not None else "vector.fraction_of_matrix"]
    # Matrix units without a float32 mode leave such products to the vector units, at their rate.
    if total is not None and not integers and any(path.startswith("matrix.") for path in figures.values):
        figures.add("matrix.fp32", total, f"{source}; products in float32 run on the vector units")
    if total is None:
        # Without a vector rate, a share of the 16-bit matrix peak stands for it.
        wide = [figures.values[f"matrix.{p}"] for p in ("bf16", "fp16") if f"matrix.{p}" in figures.values]
        if not wide:
            raise ValueError(f"{where}.vector: fraction_of_matrix = {share!r} needs a peak of matrix.bf16 or fp16")
        total = given(share, "fraction_of_matrix") * wide[0]
        source = f"{share:g} of the 16-bit matrix peak ({source})"
        assumed.append(f"vector rate unknown: {formatted(total, 'FLOP/s')} is {source}")
    # Datasheets give the rate of the whole device; the leaf is that of one core.
    single_core = count == 1.0
    figures.add("cores.vector_flops", total / count, source if single_core else f"{source}; divided by {count:g} cores")
    return assumed
