"""Design spaces: a device whose figures follow from few knobs by the laws of its technology."""

import contextlib
import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hwspaces.accelerators import load
from hwspaces.accelerators.constants import Constant, technology_constants
from hwspaces.accelerators.derived import Shared
from hwspaces.accelerators.entry import HardwareEntry, overridden
from hwspaces.accelerators.load import changed
from hwspaces.accelerators.technology_tables import common, extended, known_tables
from hwspaces.files import document
from hwspaces.quantities.laws import BASE, hardware_laws, law_that_sets, obeying
from hwspaces.quantities.leaves import leaf, leaf_quantity
from hwspaces.quantities.units import formatted, nearest
from jaxroof.numerics.tree import leaf_at, mapped

SPACES = Path(__file__).parents[1] / "spaces"

LAWS = Path(__file__).parents[1] / "technology" / "laws.toml"
"""Laws that all spaces obey."""

TECHNOLOGIES = ("process", "stack", "link", "package", "cooling", "draw")
"""Keys of a space that name technologies: in laws, constants have them before their names: `stack.floor_power`."""

LARGEST = 1 << 20
"""Bytes of a file of a space."""

TEXTS = ("title", "base", *TECHNOLOGIES)
TABLES = ("accelerator", "start", "knobs", "laws", "technology")
REQUIRED = ("base", "process", "stack", "link", "package", "cooling", "knobs")
KNOB_KEYS = ("from", "to", "n", "scale")

MARGIN = 1
"""Price over cost of the devices of every space, whatever the vendor of the base earns."""

MARGIN_SOURCE = "choice: money is the cost to make a device, for all spaces alike"

ROUNDING = 1e-9
"""Of a knob's ends, by which a start may lie beyond them."""

_KINDS = {"process": "voltage"}
"""Technology of a space -> kind of its constants, where that has another name."""


@dataclasses.dataclass(frozen=True)
class Space:
    """A device that obeys laws, and the ranges of its knobs."""

    name: str
    title: str
    base: str  # name of the accelerator that figures without a law are of
    entry: HardwareEntry  # the design that the space starts from; its hardware has the laws
    laws: Mapping[str, str]  # figure -> expression as written, with `*` for every precision
    knobs: Mapping[str, Any]  # path with `hardware.` -> {"from", "to", "n", "scale"} or a list, as an axis has it
    constants: Mapping[str, Constant]  # of its technologies, that laws read, by name
    technologies: Mapping[str, str]  # key of `TECHNOLOGIES` -> name

    @property
    def held(self) -> tuple[str, ...]:
        """Paths of figures that no law sets and no knob varies."""
        moved = {law.path for law in self.entry.hardware.laws} | {path.removeprefix("hardware.") for path in self.knobs}
        return tuple(path for path in self.entry.figures if path not in moved)


@functools.cache
def space_names() -> tuple[str, ...]:
    """Names of the spaces that come with the distribution."""
    return tuple(sorted(path.stem for path in SPACES.glob("*.toml")))


def is_space(name: str) -> bool:
    """Whether it names a space of the distribution, or a file of one."""
    return _path(name) is not None


def space(name_or_path: str) -> Space:
    """The space of that name, or the one in that file.

    Raises:
      ValueError: one line that names file, key, value and what is allowed.
    """
    path = _path(name_or_path)
    if path is None:
        raise ValueError(f"space = {name_or_path!r} is not known{nearest(name_or_path, space_names())}")
    return _read(path)


def _path(name: str) -> Path | None:
    if not name.lower().endswith(".toml"):
        return SPACES / f"{name}.toml" if name in space_names() else None
    path = Path(name)
    with contextlib.suppress(OSError, ValueError):  # whoever reads accelerators says what is wrong with the file
        # Accelerators' files have no table [knobs]. Searching for it is quicker than parsing, and a broken file is no
        # error here.
        if path.is_file() and path.stat().st_size <= LARGEST:
            return path if re.search(rb"^[ \t]*\[knobs\]", path.read_bytes(), re.M) else None
    return None


@functools.cache
def _read(path: Path) -> Space:
    tables, where = document.toml(path), str(path)
    for key, value in tables.items():
        if key not in (*TEXTS, *TABLES):
            raise ValueError(f"{where}: {key} is not known{nearest(key, (*TEXTS, *TABLES))}")
        if isinstance(value, str if key in TABLES else Mapping):
            raise ValueError(f"{where}: {key} = {value!r} must be {'a table' if key in TABLES else 'text'}")
    for key in REQUIRED:
        if key not in tables:
            raise ValueError(f"{where}: {key} is missing; a space has {', '.join(REQUIRED)}")
    # What the rest of a device draws has one table of constants, which spaces need not name.
    names = {key: tables[key] for key in TECHNOLOGIES if key in tables} | {"draw": "usual"}
    # Technologies of the file's own stand over those of the package that have the same name.
    own = known_tables(tables.get("technology", {}), f"{where}: technology")
    constants = _constants(names, extended(common(), own, where), where)
    start = _start(tables, path, constants, where)
    # A space's own laws stand over those of all spaces; an empty text takes one of them away.
    written = {key: text for key, text in (document.toml(LAWS)["laws"] | tables.get("laws", {})).items() if text}
    texts = dict(_expanded(written, start, where))
    laws = hardware_laws(texts, start.hardware, where, {k: (c.value, c.unit) for k, c in constants.items()})
    # The design that the space starts from obeys the laws as every other design of it.
    hardware = mapped(float, obeying(dataclasses.replace(start.hardware, laws=laws), laws))
    follow = {law.path: float(leaf_at(hardware, law.path)) for law in laws}
    entry = dataclasses.replace(
        start,
        hardware=hardware,
        figures=start.figures | follow,
        sources=start.sources | {law.path: f"law: {law.text}" for law in laws},
    )
    title = tables.get("title", path.stem)
    knobs = dict(_knobs(tables["knobs"], entry, where))
    # Laws of figures that this device lacks were left out above, and are not told.
    known = {key: text for key, text in written.items() if any(_matches(key, law.path) for law in laws)}
    return Space(path.stem, title, tables["base"], entry, known, knobs, constants, names)


def _matches(key: str, path: str) -> bool:
    """Whether a law as written sets the figure at `path`."""
    return path == key or ("*" in key and path.rpartition(".")[0] == key.removesuffix(".*"))


def _constants(names: Mapping[str, str], shared: Shared, where: str) -> dict[str, Constant]:
    """Constants of all technologies that a space names, by the names that laws have for them."""
    constants: dict[str, Constant] = {}
    for key, name in names.items():
        try:
            held = technology_constants(_KINDS.get(key, key), name.partition("+")[0], shared)  # of the dies with cores
        except ValueError as error:
            raise ValueError(f"{where}: {key} = {name!r}: {error}") from None
        constants |= {f"{key}.{plain}": constant for plain, constant in held.items()}
    return constants


def _start(tables: Mapping[str, Any], path: Path, constants: Mapping[str, Constant], where: str) -> HardwareEntry:
    """The design that a space starts from, before its laws: the base with the space's own keys and figures."""
    overlay, settings = tables.get("accelerator", {}), _package(constants) | tables.get("start", {})

    def change(table: Mapping[str, Any]) -> dict[str, Any]:
        laid = _laid(_laid(_laid(table, _technologies(tables)), {"costs": {"margin": MARGIN}}), overlay)
        laid["product"] = tables.get("title", path.stem)
        # The design is no product that is sold: what is said about the base is not said about it.
        sources = {} if "margin" in overlay.get("costs", {}) else {"costs.margin": MARGIN_SOURCE}
        return laid | {"aliases": [], "notes": [], "sources": sources, "source": f"{tables['base']}, and {path.name}"}

    device = changed(tables["base"], change, path.stem, where, tables.get("technology"))
    return overridden(device, settings, f"{where}: start")


def _package(constants: Mapping[str, Constant]) -> dict[str, float]:
    """Figures of `hardware.package`, and the largest die, from the technologies of package, cooling, memory and link.

    A stack takes as much of the die's edge as its PHY or the stack beside it, whichever is wider.
    """
    held = {name: constant.value for name, constant in constants.items()}
    figures = {
        "silicon.largest_die": held.get("package.largest_die"),
        "package.interposer": held.get("package.interposer"),
        "package.edge_share": held.get("package.edge_share"),
        "package.power_density": held.get("package.power_density"),
        "package.cooling": held.get("cooling.power"),
        "package.stack_edge": max(held.get("stack.phy_edge", 0.0), held.get("stack.width", 0.0)),
        "package.stack_footprint": held.get("stack.footprint"),
        "package.link_edge": held.get("link.shoreline"),
    }
    return {path: value for path, value in figures.items() if value is not None}


def _technologies(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the base's table that a space's technologies replace; the base's die and number of stacks go."""
    return {
        "process": tables["process"],
        "die": "",
        "status": "hypothetical",
        "memory": {"hbm": {"technology": tables["stack"], "stacks": ""}},
        "links": {"scale_up": {"technology": tables["link"]}},
    }


def _laid(table: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """A table with the keys of another laid over it; a key whose value is "" is taken away."""
    laid = dict(table)
    for key, value in overlay.items():
        if value == "":
            laid.pop(key, None)
        else:
            laid[key] = _laid(laid.get(key, {}), value) if isinstance(value, Mapping) else value
    return laid


def _expanded(texts: Mapping[str, str], entry: HardwareEntry, where: str) -> Iterator[tuple[str, str]]:
    """Laws with `*` written out for every precision of the device that has all figures; others are left out.

    A precision whose law would read itself is what the others follow from. ValueError of one line for a law that reads
    the figure that it sets.
    """
    for path, text in texts.items():
        if not isinstance(text, str):
            raise ValueError(f"{where}: laws: {path} = {text!r} is not an expression, such as 'base.cores.count * 2'")
        if _reads(text, path):
            raise ValueError(f"{where}: laws: {path} = {text!r} refers to itself")
        for precision in entry.hardware.matrix if "*" in path else ("",):
            plain, own = path.replace(".*", f".{precision}"), text.replace(".*", f".{precision}")
            # A law of a precision is left out where it needs a figure that the device lacks at that precision.
            needed = {plain, *re.findall(rf"[\w.]+\.{precision}\b", own)} if precision else {plain}
            known = all(leaf_at(entry.hardware, name.removeprefix(BASE)) is not None for name in needed)
            if known and not (precision and _reads(own, plain)):
                yield plain, own


def _reads(text: str, path: str) -> bool:
    """Whether the expression of a law reads the figure at `path`; `base.` and a path is a constant."""
    plain = re.escape(path.removeprefix("hardware."))
    # The whole path alone counts: not a longer one, and not `base.` before it, which is a constant.
    return re.search(rf"(?<![\w.])(hardware\.)?{plain}(?![\w.*])", text) is not None


def _knobs(tables: Mapping[str, Any], entry: HardwareEntry, where: str) -> Iterator[tuple[str, Any]]:
    """Ranges of knobs by whole path; ValueError of one line for one that is no figure or follows from a law."""
    for path, value in tables.items():
        plain = path.removeprefix("hardware.")
        try:
            leaf(plain)
        except ValueError as error:
            raise ValueError(f"{where}: knobs: {error}") from None
        # A knob would have no effect where a law sets the same figure.
        law = law_that_sets(entry.hardware.laws, plain)
        if law is not None:
            raise ValueError(f"{where}: knobs: {plain} follows from a law: {law.text}")
        if leaf_at(entry.hardware, plain) is None:
            raise ValueError(f"{where}: knobs: {plain} has no value at the start; give it in [start]")
        if isinstance(value, Mapping):
            for key in value:
                if key not in KNOB_KEYS:
                    raise ValueError(f"{where}: knobs: {plain}: {key} is not known{nearest(key, KNOB_KEYS)}")
        elif not isinstance(value, list):
            raise ValueError(f"{where}: knobs: {plain} = {value!r} must be a range or a list")
        _require_within(plain, value, float(leaf_at(entry.hardware, plain)), where)
        yield f"hardware.{plain}", value


def _require_within(path: str, knob: Any, start: float, where: str) -> None:
    """ValueError of one line where a design starts outside of what its knob may be."""
    # A start at the end of a range may be off by rounding: units are converted on both sides.
    ends = knob if isinstance(knob, list) else [knob[key] for key in ("from", "to") if key in knob]
    figures = [leaf_quantity(value, path, f"{where}: knobs: {path}") for value in ends]
    if figures and not min(figures) * (1 - ROUNDING) <= start <= max(figures) * (1 + ROUNDING):
        low, high, own = (formatted(figure, leaf(path).unit) for figure in (min(figures), max(figures), start))
        raise ValueError(f"{where}: start: {path} = {own} is outside of its knob, from {low} to {high}")


# Devices by name: accelerators of the catalogue, of files, and those that design spaces start from.


def hardware(name_or_path: str | Path) -> HardwareEntry:
    """The accelerator of that name, or the one in that file; of a design space, the design that it starts from.

    Args:
      name_or_path: a name or an alias of the catalogue (case, `-`, `_` and spaces do not matter), or the path of
        a `.toml` of the catalogue's schema or a `.json` of the BLIS form; `file.toml#NAME` where the file has several.
        Or the name or file of a design space, whose laws the hardware then has.

    Raises:
      ValueError: one line that names what is wrong: an unknown name with the nearest known ones, a file that is
        missing or unreadable, a field with its value and what is allowed.
    """
    text = str(name_or_path)
    return space(text).entry if is_space(text) else load.hardware(text)
