"""Layers, architectures and mappings from TOML files, or from those that are shipped."""

import dataclasses
import difflib
import functools
import importlib.resources
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwspaces import document
from jaxroof.nests import Fanout, Machine, Memory, Problem, Tensor
from jaxroof.nests import Mapping as NestMapping
from workloads.nests import checks

TENSORS = ("Weights", "Inputs", "Outputs")
"""Names of the tensors of convolutions and matrix products; shipped architectures know them."""


@dataclasses.dataclass(frozen=True)
class NestEntry:
    """A layer or an architecture with its name and where its figures are from."""

    name: str
    source: str
    value: Any  # a `Problem` or a `Machine`
    count: int = 1  # of a layer in its network


def layer_names() -> tuple[str, ...]:
    """Names of all shipped layers: "resnet50.conv1"."""
    return tuple(f"{name}.{part}" for name in _shipped("layers") for part in _sections(_read("layers", name)))


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
        path, _, part = name_or_path.partition(".")
        if path not in _shipped("layers"):
            raise ValueError(f"there is no layer {name_or_path}{_hint(name_or_path, layer_names(), 'a TOML file')}")
        content, where = _read("layers", path), name_or_path
    sections = _sections(content)
    if "kind" not in content:
        if part not in sections:
            which = f"there is no layer {part}" if part else "it has several layers"
            raise ValueError(f"{where}: {which}{_hint(part, sections, '')}")
        content, where = {"source": content.get("source", "")} | sections[part], f"{path}: {part}"
    elif part:
        raise ValueError(f"{where}: the file has one layer, without a name: leave {part} out")
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
    return () if "kind" in content else tuple(f"{name_or_path}{sign}{part}" for part in _sections(content))


def architecture(name_or_path: str) -> NestEntry:
    """An architecture by name, or from a TOML file; ValueError as of `layer`."""
    if name_or_path.endswith(".toml"):
        content = document.toml(name_or_path)
    elif name_or_path in _shipped("architectures"):
        content = _read("architectures", name_or_path)
    else:
        raise ValueError(
            f"there is no architecture {name_or_path}{_hint(name_or_path, architecture_names(), 'a TOML file')}"
        )
    known = ("source", "clock_MHz", "mac_energy_pJ", "gating", "skipping", "gated_by", "nodes")
    checks.table(content, name_or_path, known)
    listed = content.get("nodes")
    checks.require(isinstance(listed, list), name_or_path, "nodes are missing: [[nodes]], from the outermost")
    machine = Machine(
        nodes=tuple(_node(each, f"{name_or_path}: node {number}") for number, each in enumerate(listed, 1)),
        mac_energy=1e-12
        * checks.number(content.get("mac_energy_pJ", 0.0), f"{name_or_path}: mac_energy_pJ", zero=True),
        clock=1e6 * checks.number(content.get("clock_MHz", 1000.0), f"{name_or_path}: clock_MHz"),
        **{
            name: float(checks.flag(content.get(name, False), f"{name_or_path}: {name}"))
            for name in ("gating", "skipping")
        },
        gated_by=checks.words(content.get("gated_by", []), f"{name_or_path}: gated_by"),
    )
    source = checks.text(content.get("source", ""), f"{name_or_path}: source")
    return NestEntry(name_or_path, source, checks.checked_machine(machine, name_or_path))


def mapping(path: str, problem: Problem, machine: Machine) -> NestMapping:
    """A mapping from a TOML file: tables `loops` ("P8 Q2" by node, from the outermost) and `keeps` (tensors by memory).

    With `padded = true` factors may multiply to more than a dimension's size.

    Args:
      path: the file; or an answer of `jaxroof map`, in JSON.
      problem, machine: what is mapped, and on what.

    Raises:
      ValueError: one line, as of `workloads.nests.checks.built_mapping`.
    """
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


def convolution(
    sizes: Mapping[str, int], stride: int = 1, dilation: int = 1, densities: Mapping[str, float] | None = None
) -> Problem:
    """A convolution: N images, M filters, C channels, P x Q outputs, R x S weights; G groups of M and C each."""
    groups = (((1, "G"),),) if sizes.get("G", 1) > 1 else ()
    row, column = ((stride, "P"), (dilation, "R")), ((stride, "Q"), (dilation, "S"))
    axes: tuple[Any, ...] = (
        (*groups, ((1, "M"),), ((1, "C"),), ((1, "R"),), ((1, "S"),)),
        (((1, "N"),), *groups, ((1, "C"),), row, column),
        (((1, "N"),), *groups, ((1, "M"),), ((1, "P"),), ((1, "Q"),)),
    )
    return _einsum(sizes, dict(zip(TENSORS, axes, strict=True)), "Outputs", densities or {})


def matmul(m: int, n: int, k: int, densities: Mapping[str, float] | None = None) -> Problem:
    """A product of inputs [m, k] and weights [k, n]."""
    pairs = {"Weights": "KN", "Inputs": "MK", "Outputs": "MN"}
    axes = {name: tuple(((1, letter),) for letter in pair) for name, pair in pairs.items()}
    return _einsum({"M": m, "N": n, "K": k}, axes, "Outputs", densities or {})


def _problem(content: Mapping[str, Any], where: str) -> Problem:
    kind = content["kind"]
    more = {"convolution": ("stride", "dilation"), "matmul": (), "einsum": ("tensors", "output")}
    checks.require(isinstance(kind, str) and kind in more, f"{where}: kind", f"{kind!r} is none of {', '.join(more)}")
    checks.table(content, where, ("kind", "source", "count", "sizes", "densities", *more[kind]))
    sizes = {
        checks.word(name, f"{where}: sizes"): checks.whole(size, f"{where}: sizes.{name}")
        for name, size in checks.table(content.get("sizes"), f"{where}: sizes").items()
    }
    densities = {
        name: checks.number(value, f"{where}: densities.{name}")
        for name, value in checks.table(content.get("densities", {}), f"{where}: densities").items()
    }
    for name, density in densities.items():
        checks.require(density <= 1.0, f"{where}: densities.{name}", f"{density:g} must be at most 1")
    if kind == "einsum":
        tensors = checks.table(content.get("tensors"), f"{where}: tensors")
        axes = {
            checks.word(name, f"{where}: tensors"): _axes(value, f"{where}: tensors.{name}")
            for name, value in tensors.items()
        }
        output = checks.words([content.get("output")], f"{where}: output", tuple(axes))[0]
    else:
        letters = "NMCPQRSG" if kind == "convolution" else "MNK"
        checks.table(sizes, f"{where}: sizes", tuple(letters))
        sizes = {name: sizes.get(name, 1) for name in letters if name != "G" or "G" in sizes}
    for name in densities:
        checks.table({name: 1}, f"{where}: densities", tuple(axes) if kind == "einsum" else TENSORS)
    if kind == "einsum":
        return _einsum(sizes, axes, output, densities)
    if kind == "matmul":
        return matmul(sizes["M"], sizes["N"], sizes["K"], densities)
    stride, dilation = (checks.whole(content.get(name, 1), f"{where}: {name}") for name in ("stride", "dilation"))
    return convolution(sizes, stride, dilation, densities)


def _einsum(sizes: Mapping[str, int], axes: Mapping[str, Any], output: str, densities: Mapping[str, float]) -> Problem:
    tensors = {
        name: Tensor(axes=each, output=name == output, density=densities.get(name, 1.0)) for name, each in axes.items()
    }
    return Problem(sizes={name: float(size) for name, size in sizes.items()}, tensors=tensors)


def _axes(value: Any, where: str) -> tuple[tuple[tuple[int, str], ...], ...]:
    """Axes of a text such as "N, C, 2*P + R"."""
    found = []
    for axis in checks.text(value, where).split(","):
        terms = []
        for term in axis.split("+"):
            match = re.fullmatch(r"\s*(?:([0-9]{1,6})\s*\*\s*)?([A-Za-z_]{1,60})\s*", term)
            checks.require(match is not None, where, f"{term.strip()!r} must be a dimension or 2*P")
            terms.append((checks.whole(int(match[1] or 1), where), match[2]))
        checks.require(len({name for _, name in terms}) == len(terms), where, f"{axis.strip()!r} has a dimension twice")
        found.append(tuple(terms))
    return tuple(found)


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


def _node(content: Any, where: str) -> Memory | Fanout:
    checks.table(content, where)
    kind = "fanout" if "fanout" in content else "memory"
    known = (
        ("fanout", "size", "multicast", "reduces", "least_used", *_TRANSFERS)
        if kind == "fanout"
        else ("memory", "keeps", "passes", "gated_by", "order", "compression", *_MEMORY)
    )
    checks.table(content, where, (*known, "loops", "factors"))
    name = checks.word(content.get(kind), f"{where}: {kind}")
    loops = checks.words(content["loops"], f"{where}: loops") if "loops" in content else None
    limits = checks.parsed_limits(content.get("factors", ""), f"{where}: factors")
    if kind == "fanout":
        own: dict[str, Any] = {
            each: checks.flag(content[each], f"{where}: {each}") for each in ("multicast", "reduces") if each in content
        }
        for key, (field, scale) in _TRANSFERS.items():
            if key in content:
                own[field] = _by_tensor(content[key], f"{where}: {key}", scale)
        if "least_used" in content:
            own["least"] = checks.number(content["least_used"], f"{where}: least_used", zero=True)
            checks.require(own["least"] <= 1.0, f"{where}: least_used", f"{own['least']:g} must be at most 1")
        size = checks.whole(content.get("size"), f"{where}: size")
        return Fanout(name=name, dimensions=loops, limits=limits, size=float(size), **own)
    figures: dict[str, Any] = {
        field: scale * checks.number(content[key], f"{where}: {key}", zero=scale < 1.0)
        for key, (field, scale) in _MEMORY.items()
        if key in content
    }
    figures.setdefault("update_energy", figures.get("write_energy", 0.0))
    named: dict[str, Any] = {
        key: checks.words(content.get(key, []), f"{where}: {key}") for key in ("keeps", "passes", "gated_by", "order")
    }
    if "compression" in content:
        figures["compression"] = _by_tensor(content["compression"], f"{where}: compression", 1.0)
    return Memory(name=name, dimensions=loops, limits=limits, **named, **figures)


def _by_tensor(content: Any, where: str, scale: float) -> dict[str, float]:
    """Numbers by names of tensors."""
    return {
        checks.word(name, where): scale * checks.number(value, f"{where}.{name}", zero=scale < 1.0)
        for name, value in checks.table(content, where).items()
    }


def _sections(content: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in content.items() if isinstance(value, Mapping) and "kind" in value}


@functools.cache
def _shipped(folder: str) -> tuple[str, ...]:
    files = (importlib.resources.files("workloads") / "nests" / folder).iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


@functools.cache
def _read(folder: str, name: str) -> dict[str, Any]:
    return document.toml(Path(str(importlib.resources.files("workloads") / "nests" / folder / f"{name}.toml")))


def _hint(name: str, known: Any, other: str) -> str:
    near = difflib.get_close_matches(name, list(known), n=3, cutoff=0.5) or list(known)[:12]
    return f"; known: {', '.join(near)}{f', or {other}' if other else ''}"
