"""`jaxroof map`: accesses, time and energy of loop nests on an accelerator, in a given mapping or the best ones."""

import argparse
import functools
import math
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.common import json_argument, whole_number
from sweeps.cli.outputs import output_argument, picture_argument
from sweeps.cli.progress import Line

MAPPINGS = 500_000
MOST_MAPPINGS = 10**9

SEARCH = ("objective", "search", "bypass", "pad", "mappings", "seed")
"""Flags that only a search reads."""

OF_A_LAYER = ("arch", "energies", "mapping", *SEARCH, "output", "plot")
"""Flags of a layer or network."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument(
        "layer",
        nargs="?",
        metavar="LAYER",
        help="a name, FILE.toml, FILE.toml#NAME or a Timeloop problem.yaml; of a network: all of its layers",
    )
    parser.add_argument("--arch", metavar="NAME", help="architecture: a name, FILE.toml or a Timeloop arch.yaml")
    parser.add_argument("--energies", metavar="FILE", help="energy table of a Timeloop arch.yaml: ERT.yaml")
    parser.add_argument(
        "--mapping", metavar="FILE", help="the mapping: FILE.toml, a RESULT.json or map.yaml (default: it is searched)"
    )
    search = parser.add_argument_group("search")
    search.add_argument("--objective", metavar="WHAT", help="edp (default: energy times cycles), energy or cycles")
    search.add_argument("--search", metavar="HOW", help="random (default), enumerate or gradient")
    search.add_argument("--bypass", action="store_true", help="also let tensors pass memories that may keep them")
    search.add_argument(
        "--pad", metavar="SHARE", help="dimensions may grow by this share, to sizes with better factors (default 0)"
    )
    search.add_argument("--mappings", metavar="N", help=f"mappings that are evaluated (default {MAPPINGS:,})")
    search.add_argument("--seed", metavar="N", help="of random draws (default 0)")
    output_argument(parser, "-o", "--output", kinds=("answer",), metavar="RESULT.json", help="the answer as a file")
    picture_argument(parser, "energy of a network's layers by component, a .png or .svg")
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print the layer's accesses and costs, or their JSON; without a layer, what there is."""
    from sweeps.answers import map as report

    if options.layer is None:
        if given := _given(options, OF_A_LAYER):
            raise ValueError(f"LAYER is missing, which {given[0]} is for; `jaxroof map` lists the known layers")
        return report.print_names(options.json)
    if options.arch is None:
        raise ValueError("--arch is missing; `jaxroof map` lists the known architectures")
    machine = _machine(options)
    if (names := _network(options)) is not None:
        from sweeps.cli import map_network

        if options.plot is not None and not machine.costs_energy:
            raise ValueError(f"--plot draws energies; {options.arch} has none")
        search = functools.partial(_searched, options, machine)
        return map_network.run(options, machine, names, search)
    problem = _problem(options.layer)
    if options.mapping is None:
        with Line() as line:
            found = _searched(options, machine, options.layer, problem, line)
        mapping, cost = found.mapping, found.cost
    else:
        if given := _given(options, SEARCH):
            raise ValueError(f"{given[0]} is for a search, and --mapping gives the mapping")
        from jaxroof.nests import nest_cost
        from workloads.nests.checks import require_names

        require_names(problem, machine, options.arch)
        found, mapping = None, _mapping(options.mapping, problem, machine)
        cost = nest_cost(problem, machine, mapping)
    record = report.record(options, problem, machine, mapping, cost, found)
    if options.output is not None:
        report.write(record, options.output, options.force)
    if options.json:
        return print_json(record)
    report.show(options, problem, machine, mapping, cost, found)


def _given(options: argparse.Namespace, names: tuple[str, ...]) -> list[str]:
    """Those flags that are given."""
    return [f"--{name}" for name in names if getattr(options, name) not in (None, False)]


def _network(options: argparse.Namespace) -> tuple[str, ...] | None:
    """Layers of the network that is asked for; None for a layer."""
    from workloads import nests

    names = () if _is_yaml(options.layer) else nests.network_layers(options.layer)
    if names and options.mapping is not None:
        raise ValueError(f"--mapping is for one layer; {options.layer} has {len(names)}")
    if not names and options.plot is not None:
        raise ValueError(f"--plot is for a network; {options.layer} is one layer")
    return names or None


def _problem(name: str) -> Any:
    from workloads import nests

    return nests.timeloop_problem(name) if _is_yaml(name) else nests.layer(name).value


def _machine(options: argparse.Namespace) -> Any:
    from workloads import nests

    if _is_yaml(options.arch):
        return nests.timeloop_architecture(options.arch, options.energies)
    if options.energies is not None:
        raise ValueError(f"--energies is for an arch.yaml of Timeloop; {options.arch} states its own")
    return nests.architecture(options.arch).value


def _mapping(path: str, problem: Any, machine: Any) -> Any:
    from workloads import nests

    return (nests.timeloop_mapping if _is_yaml(path) else nests.mapping)(path, problem, machine)


def _searched(
    options: argparse.Namespace, machine: Any, name: str, problem: Any, line: Line, before: float = 0.0, layers: int = 1
) -> Any:
    """The best mapping of a layer.

    Args:
      line: shows how far the search is.
      before, layers: of a network, layers that are done, and all.
    """
    from sweeps.studies.map import found_mapping
    from workloads.nests.checks import require_names, residents

    mappings = MAPPINGS if options.mappings is None else int(whole_number("--mappings", options.mappings))
    if mappings > MOST_MAPPINGS:
        raise ValueError(f"--mappings {mappings} must be at most {MOST_MAPPINGS}")
    seed = 0 if options.seed is None else int(whole_number("--seed", options.seed, zero=True))
    pad = 0.0 if options.pad is None else _share(options.pad)
    objective = options.objective or "edp"
    if objective != "cycles" and not machine.costs_energy:
        raise ValueError(
            f"--objective {objective}: {options.arch} has no energies; give --energies or --objective cycles"
        )
    require_names(problem, machine, options.arch)
    kept = residents(problem, machine, {}, options.arch)
    method = options.search or "random"
    place = f", layer {before + 1:,.0f} of {layers:,}" if layers > 1 else ""

    def report(done: int, total: int) -> None:
        line.show(f"{done:,} of about {total:,} mappings{place}", before + min(done / total, 1.0), layers)

    try:
        return found_mapping(problem, machine, kept, objective, method, mappings, seed, report, options.bypass, pad)
    except ValueError as error:
        raise ValueError(f"{name} on {options.arch}: {error}") from None


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"--pad {text} must be a share from 0 to 1, such as 0.05")
    return share


def _is_yaml(name: str) -> bool:
    return name.lower().endswith((".yaml", ".yml"))
