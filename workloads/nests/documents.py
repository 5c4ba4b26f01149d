"""Layers, architectures and mappings from TOML files, or from those that are shipped."""

import dataclasses
import functools
import importlib.resources
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwspaces.files import document
from jaxroof.nests import Mapping as NestMapping
from jaxroof.nests import NestFanout, NestMachine, NestMemory, NestProblem
from workloads.nests import checks
from workloads.nests.checks import CONVOLUTION, MATMUL, TENSORS, Axes, convolution, einsum, matmul
from workloads.streams.kinds import nearest


@dataclasses.dataclass(frozen=True)
class NestEntry:
    """A layer or an architecture with its name and where its figures are from."""

    name: str
    source: str
    value: Any  # a `NestProblem` or a `NestMachine`
    count: int = 1  # of a layer in its network


def layer_names() -> tuple[str, ...]:
    """Names of all shipped layers: "resnet50.conv1"."""
    return tuple(f"{name}.{part}" for name in _shipped("layers") for part in _sections(_read("layers", name), name))


def architecture_names() -> tuple[str, ...]:
    """Names of all shipped architectures."""
    return _shipped("architectures")


def layer(name_or_path: str) -> NestEntry:
    """A layer by name, or from a TOML file; one of several in a file is named after a hash: FILE.toml#conv1.

    Raises:
      ValueError: one line: an unknown name or file, or what is wrong in it.
    """
    path, _, part = name_or_path.partition("#")
    if path.endswith(".toml"):
        content, where = document.toml(path), path
    else:
        # Names with a dot are of shipped networks: NETWORK.LAYER.
        path, _, part = name_or_path.partition(".")
        if path not in _shipped("layers"):
            known = (*_shipped("layers"), *layer_names())
            raise ValueError(f"there is no layer {name_or_path}{nearest(name_or_path, known)} (or FILE.toml)")
        content, where = _read("layers", path), name_or_path
    # With a kind at its top the file is one layer, otherwise a network of several.
    if "kind" in content:
        checks.require(not part, where, f"the file has one layer, without a name: leave {part} out")
    else:
        sections = _sections(content, where)
        which = f"there is no layer {part}" if part else "it has several layers"
        checks.require(part in sections, where, f"{which}{nearest(part, sections)}")
        # A layer has its network's source unless it states its own.
        content, where = {"source": content.get("source", "")} | sections[part], f"{path}: {part}"
    problem = checks.checked_problem(_problem(content, where), where)
    source = checks.text(content.get("source", ""), f"{where}: source")
    return NestEntry(name_or_path, source, problem, checks.whole(content.get("count", 1), f"{where}: count"))


def network_layers(name_or_path: str) -> tuple[str, ...]:
    """Names of all layers of a network, which is a shipped one or a TOML file with several layers; none: it is a layer.

    Raises:
      ValueError: one line: what is wrong with the file.
    """
    if name_or_path.endswith(".toml"):
        content, sign = document.toml(name_or_path), "#"
    elif name_or_path in _shipped("layers"):
        content, sign = _read("layers", name_or_path), "."
    else:
        return ()
    sections = () if "kind" in content else _sections(content, name_or_path)
    return tuple(f"{name_or_path}{sign}{part}" for part in sections)


def architecture(name_or_path: str) -> NestEntry:
    """An architecture by name, or from a TOML file; ValueError as of `layer`."""
    where = name_or_path
    if where.endswith(".toml"):
        content = document.toml(where)
    elif where in _shipped("architectures"):
        content = _read("architectures", where)
    else:
        raise ValueError(f"there is no architecture {where}{nearest(where, architecture_names())} (or FILE.toml)")
    known = ("source", "clock_MHz", "mac_energy_pJ", "gating", "skipping", "gated_by", "nodes")
    checks.table(content, where, known)
    listed = checks.items(content.get("nodes"), where, "nodes are missing: [[nodes]], from the outermost")
    energy = checks.number(content.get("mac_energy_pJ", 0.0), f"{where}: mac_energy_pJ", zero=True)
    # Flags become 0.0 or 1.0.
    zeros = {name: float(checks.flag(content.get(name, False), f"{where}: {name}")) for name in ("gating", "skipping")}
    machine = NestMachine(
        nodes=tuple(_node(each, f"{where}: node {number}") for number, each in enumerate(listed, 1)),
        # From pJ to J, and from MHz to Hz.
        mac_energy=1e-12 * energy,
        clock=1e6 * checks.number(content.get("clock_MHz", 1000.0), f"{where}: clock_MHz"),
        gated_by=checks.words(content.get("gated_by", []), f"{where}: gated_by"),
        **zeros,
    )
    source = checks.text(content.get("source", ""), f"{where}: source")
    return NestEntry(where, source, checks.checked_machine(machine, where))


def mapping(path: str, problem: NestProblem, machine: NestMachine) -> NestMapping:
    """A mapping from a TOML file: tables `loops` ("P8 Q2" by node, from the outermost) and `keeps` (tensors by memory).

    With `padded = true` factors may multiply to more than a dimension's size.

    Args:
      path: the file; or an answer of `jaxroof map`, in JSON.
      problem, machine: what is mapped, and on what.

    Raises:
      ValueError: one line, as of `workloads.nests.checks.built_mapping`.
    """
    # An answer of `jaxroof map` holds the mapping among its other results.
    if path.endswith(".json"):
        content = checks.table(checks.table(document.json_value(path), path).get("mapping"), f"{path}: mapping")
    else:
        content = document.toml(path)
    checks.table(content, path, ("source", "loops", "keeps", "padded"))
    loops = {
        name: checks.parsed_loops(value, f"{path}: loops.{name}")
        for name, value in checks.table(content.get("loops", {}), f"{path}: loops").items()
    }
    keeps = {
        name: checks.words(value, f"{path}: keeps.{name}")
        for name, value in checks.table(content.get("keeps", {}), f"{path}: keeps").items()
    }
    padded = checks.flag(content.get("padded", False), f"{path}: padded")
    return checks.built_mapping(problem, machine, loops, keeps, path, padded)


def _problem(content: Mapping[str, Any], where: str) -> NestProblem:
    kind = content["kind"]
    more = {"convolution": ("stride", "dilation"), "matmul": (), "einsum": ("tensors", "output")}
    checks.require(isinstance(kind, str) and kind in more, f"{where}: kind", f"{kind!r} is none of {', '.join(more)}")
    checks.table(content, where, ("kind", "source", "count", "sizes", "densities", *more[kind]))
    sizes = {
        checks.word(name, f"{where}: sizes"): checks.whole(size, f"{where}: sizes.{name}")
        for name, size in checks.table(content.get("sizes"), f"{where}: sizes").items()
    }
    axes: dict[str, Axes] = {}
    if kind == "einsum":
        for name, value in checks.table(content.get("tensors"), f"{where}: tensors").items():
            axes[checks.word(name, f"{where}: tensors")] = _axes(value, f"{where}: tensors.{name}")
    # Densities are of the tensors that an einsum names, or of the usual three.
    given = checks.table(content.get("densities", {}), f"{where}: densities", tuple(axes) or TENSORS)
    densities = {name: checks.number(value, f"{where}: densities.{name}", most=1.0) for name, value in given.items()}
    if kind == "einsum":
        output = checks.words([content.get("output")], f"{where}: output", tuple(axes))[0]
        return einsum(sizes, axes, output, densities)
    letters = CONVOLUTION if kind == "convolution" else MATMUL
    checks.table(sizes, f"{where}: sizes", tuple(letters))
    # Dimensions that are left out have the size 1; groups count only where they are stated.
    sizes = {name: sizes.get(name, 1) for name in letters if name != "G" or "G" in sizes}
    if kind == "matmul":
        return matmul(sizes["M"], sizes["N"], sizes["K"], densities)
    stride, dilation = (checks.whole(content.get(name, 1), f"{where}: {name}") for name in ("stride", "dilation"))
    return convolution(sizes, stride, dilation, densities)


def _axes(value: Any, where: str) -> Axes:
    """Axes of a text such as "N, C, 2*P + R"."""
    axes = []
    for axis in checks.text(value, where).split(","):
        terms = []
        for term in axis.split("+"):
            wanted = f"{term.strip()!r} must be a dimension or 2*P"
            match = checks.matched(r"\s*(?:([0-9]{1,6})\s*\*\s*)?([A-Za-z_]{1,60})\s*", term, where, wanted)
            terms.append((checks.whole(int(match[1] or 1), where), match[2]))
        checks.require(len({name for _, name in terms}) == len(terms), where, f"{axis.strip()!r} has a dimension twice")
        axes.append(tuple(terms))
    return tuple(axes)


_MEMORY = {
    "capacity_words": ("capacity", 1.0),
    "word_bits": ("word_bits", 1.0),
    "block_words": ("block", 1.0),
    "read_energy_pJ": ("read_energy", 1e-12),
    "write_energy_pJ": ("write_energy", 1e-12),
    "update_energy_pJ": ("update_energy", 1e-12),
    "leakage_pJ_per_cycle": ("leakage", 1e-12),
    "read_words_per_cycle": ("read_bandwidth", 1.0),
    "write_words_per_cycle": ("write_bandwidth", 1.0),
    "words_per_cycle": ("bandwidth", 1.0),
}
"""Keys of a memory: fields and their units."""

_TRANSFERS = {
    "transfer_energy_pJ": ("transfer_energy", 1e-12),
    "transfer_words_per_cycle": ("transfer_bandwidth", 1.0),
}
"""Keys of a fan-out, numbers by tensor: fields and their units."""


def _node(content: Any, where: str) -> NestMemory | NestFanout:
    checks.table(content, where)
    kinds = [kind for kind in ("memory", "fanout") if kind in content]
    checks.require(len(kinds) == 1, where, "a node has one name, of either key: memory or fanout")
    return (_memory if kinds == ["memory"] else _fanout)(content, where)


def _fanout(content: Mapping[str, Any], where: str) -> NestFanout:
    known = ("fanout", "size", "multicast", "reduces", "least_used", *_TRANSFERS)
    own = _searched(content, where, "fanout", known)
    for key in ("multicast", "reduces"):
        own[key] = checks.flag(content.get(key, True), f"{where}: {key}")
    for key, (field, scale) in _TRANSFERS.items():
        if key in content:
            own[field] = _by_tensor(content[key], f"{where}: {key}", scale)
    least = checks.number(content.get("least_used", 0.0), f"{where}: least_used", zero=True, most=1.0)
    return NestFanout(size=float(checks.whole(content.get("size"), f"{where}: size")), least=least, **own)


def _memory(content: Mapping[str, Any], where: str) -> NestMemory:
    names = ("keeps", "passes", "gated_by", "order")
    own = _searched(content, where, "memory", ("memory", "compression", *names, *_MEMORY))
    own |= {key: checks.words(content.get(key, []), f"{where}: {key}") for key in names}
    both = [name for name in own["keeps"] if name in own["passes"]]
    checks.require(not both, where, f"keeps and passes both have {', '.join(both)}")
    for key, (field, scale) in _MEMORY.items():
        if key in content:
            # Energies may be 0; capacities, widths and bandwidths may not.
            own[field] = scale * checks.number(content[key], f"{where}: {key}", zero=scale < 1.0)
    # Without an energy of its own an update costs what a write costs.
    own.setdefault("update_energy", own.get("write_energy", 0.0))
    if "compression" in content:
        own["compression"] = _by_tensor(content["compression"], f"{where}: compression", 1.0)
    return NestMemory(**own)


def _searched(content: Mapping[str, Any], where: str, kind: str, known: tuple[str, ...]) -> dict[str, Any]:
    """The name of a node and what a search may do with it."""
    checks.table(content, where, (*known, "loops", "factors"))
    return {
        "name": checks.word(content[kind], f"{where}: {kind}"),
        "dimensions": checks.words(content["loops"], f"{where}: loops") if "loops" in content else None,
        "limits": checks.parsed_limits(content.get("factors", ""), f"{where}: factors"),
    }


def _by_tensor(content: Any, where: str, scale: float) -> dict[str, float]:
    """Numbers by names of tensors."""
    return {
        checks.word(name, where): scale * checks.number(value, f"{where}.{name}", zero=scale < 1.0)
        for name, value in checks.table(content, where).items()
    }


def _sections(content: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """The layers of a network by name."""
    layers = {name: value for name, value in content.items() if isinstance(value, dict) and "kind" in value}
    kinds = "convolution, matmul or einsum"
    checks.require(bool(layers), where, f"kind is missing ({kinds}), or a table with a kind for each of several layers")
    for name in content:
        checks.require(name in layers or name == "source", f"{where}: {name}", f"must be a table with a kind: {kinds}")
    return layers


@functools.cache
def _shipped(folder: str) -> tuple[str, ...]:
    files = (importlib.resources.files("workloads") / "nests" / folder).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


@functools.cache
def _read(folder: str, name: str) -> dict[str, Any]:
    return document.toml(Path(str(importlib.resources.files("workloads") / "nests" / folder / f"{name}.toml")))
