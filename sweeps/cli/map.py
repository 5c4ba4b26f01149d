"""`jaxroof map`: accesses, time and energy of loop nests on an accelerator, in a given mapping or the best ones."""

import argparse
import functools
import math
from collections.abc import Callable
from typing import Any

from sweeps.answers.to_json import json_text, print_json
from sweeps.cli.common import json_argument, whole_number
from sweeps.cli.outputs import output_argument, picture_argument, write
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
        return _map_network(options, machine, names)
    problem = _problem(options.layer)
    if options.mapping is None:
        from sweeps.studies.map.network import best_mapping

        words = _search(options, machine)
        with Line() as line:
            report_on = functools.partial(_say, line)
            found = best_mapping(options.layer, problem, machine, options.arch, **words, report=report_on)
        mapping, cost = found.mapping, found.cost
    else:
        if given := _given(options, SEARCH):
            raise ValueError(f"{given[0]} is for a search, and --mapping gives the mapping")
        from jaxroof.nests import nest_cost
        from workloads import nests
        from workloads.nests.checks import require_names

        require_names(problem, machine, options.arch)
        read = nests.timeloop_mapping if _is_yaml(options.mapping) else nests.mapping
        found, mapping = None, read(options.mapping, problem, machine)
        cost = nest_cost(problem, machine, mapping)
    record = report.record(options, problem, machine, mapping, cost, found)
    _hand_over(options, record, lambda: report.show(options, problem, machine, mapping, cost, found))


def _map_network(options: argparse.Namespace, machine: Any, names: tuple[str, ...]) -> None:
    """Map each layer, and print or write what all of them cost together."""
    from sweeps.answers import map as report
    from sweeps.show.nests import network_energy
    from sweeps.studies.map.network import mapped_layers
    from workloads import nests

    if options.plot is not None and not machine.costs_energy:
        raise ValueError(f"--plot draws energies; {options.arch} has none")
    layers, words = [nests.layer(name) for name in names], _search(options, machine)
    with Line() as line:
        found = mapped_layers(layers, machine, options.arch, functools.partial(_say, line), **words)
    answer = report.network_record(options, layers, machine, found)
    write(options, "plot", lambda: network_energy(answer))
    _hand_over(options, answer, lambda: report.show_network(answer, machine))


def _hand_over(options: argparse.Namespace, record: dict[str, Any], show: Callable[[], None]) -> None:
    """The answer as a file, and as JSON or by `show`."""
    if options.output is not None:
        from hwspaces.files.output import write_text

        write_text(options.output, "answer", json_text(record) + "\n", options.force)
    print_json(record) if options.json else show()


def _say(line: Line, done: int, total: int, before: int = 0, layers: int = 1) -> None:
    """Say how far a search is, and which layer of how many is searched."""
    place = f", layer {before + 1:,.0f} of {layers:,}" if layers > 1 else ""
    line.show(f"{done:,} of about {total:,} mappings{place}", before + min(done / total, 1.0), layers)


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


def _search(options: argparse.Namespace, machine: Any) -> dict[str, Any]:
    """What the flags say of a search, as `sweeps.studies.map.network.best_mapping` takes it."""
    mappings = MAPPINGS if options.mappings is None else int(whole_number("--mappings", options.mappings))
    if mappings > MOST_MAPPINGS:
        raise ValueError(f"--mappings {mappings} must be at most {MOST_MAPPINGS}")
    seed = 0 if options.seed is None else int(whole_number("--seed", options.seed, zero=True))
    pad = 0.0 if options.pad is None else _share(options.pad)
    objective, method = options.objective or "edp", options.search or "random"
    if objective != "cycles" and not machine.costs_energy:
        raise ValueError(
            f"--objective {objective}: {options.arch} has no energies; give --energies or --objective cycles"
        )
    numbers = {"mappings": mappings, "seed": seed, "pad": pad}
    return {"objective": objective, "method": method, "bypass": options.bypass, **numbers}


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
