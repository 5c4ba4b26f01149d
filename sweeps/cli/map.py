"""`jaxroof map`: accesses, time and energy of loop nests on an accelerator, in a given mapping or the best ones."""

import argparse
import math
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.common import given, json_argument, whole_setting
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
    what = "a name, FILE.toml, FILE.toml#NAME or a Timeloop problem.yaml; of a network: all of its layers"
    parser.add_argument("layer", nargs="?", metavar="LAYER", help=what)
    parser.add_argument("--arch", metavar="NAME", help="architecture: a name, FILE.toml or a Timeloop arch.yaml")
    parser.add_argument("--energies", metavar="FILE", help="energy table of a Timeloop arch.yaml: ERT.yaml")
    what = "the mapping: FILE.toml, a RESULT.json or map.yaml (default: it is searched)"
    parser.add_argument("--mapping", metavar="FILE", help=what)
    search = parser.add_argument_group("search")
    search.add_argument("--objective", metavar="WHAT", help="edp (default: energy times cycles), energy or cycles")
    search.add_argument("--search", metavar="HOW", help="random (default), enumerate or gradient")
    search.add_argument("--bypass", action="store_true", help="also let tensors pass memories that may keep them")
    what = "dimensions may grow by this share, to sizes with better factors (default 0)"
    search.add_argument("--pad", metavar="SHARE", help=what)
    search.add_argument("--mappings", metavar="N", help=f"mappings that are evaluated (default {MAPPINGS:,})")
    search.add_argument("--seed", metavar="N", help="of random draws (default 0)")
    output_argument(parser, "-o", "--output", kinds=("answer",), metavar="RESULT.json", help="the answer as a file")
    picture_argument(parser, "energy of a network's layers by component, a .png or .svg")
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print the layer's accesses and costs, or their JSON; without a layer, what there is."""
    from sweeps.answers import map as report

    if options.layer is None:
        # Without a layer the lists are printed, to which no other flag applies.
        if flags := given(options, OF_A_LAYER):
            raise ValueError(f"LAYER is missing, which {flags[0]} is for; `jaxroof map` lists the known layers")
        return report.print_names(options.json)
    if options.arch is None:
        raise ValueError("--arch is missing; `jaxroof map` lists the known architectures")
    from workloads.nests.named import named_layers, named_machine

    machine = named_machine(options.arch, options.energies)
    layers, is_network = named_layers(options.layer)
    if is_network and options.mapping is not None:
        raise ValueError(f"--mapping is for one layer; {options.layer} has {len(layers)}")
    if options.plot is not None and not is_network:
        raise ValueError(f"--plot is for a network; {options.layer} is one layer")
    if options.plot is not None and not machine.costs_energy:
        raise ValueError(f"--plot draws energies; {options.arch} has none")
    searches, maps = _mapped(options, layers, machine)
    if is_network:
        record = report.network_record(options, layers, machine, searches)
        if options.plot:
            from sweeps.show.nests import network_energy

            write(options, "plot", lambda: network_energy(record))
    else:
        # Without a search there is no record of one for the layer.
        one = (options, layers[0].value, machine, *maps, searches and searches[0])
        record = report.record(*one)
    write(options, "output", lambda: record)
    if options.json:
        return print_json(record)
    report.show_network(record, machine) if is_network else report.show(*one)


def _mapped(options: argparse.Namespace, layers: list[Any], machine: Any) -> tuple[Any, tuple[Any, Any]]:
    """What searches found for each layer, None where the mapping is given; and mapping and cost of the first layer."""
    from sweeps.studies.map.network import given_mapping, mapped_layers

    if options.mapping is None:
        # The bar shows layers that are done, with the share of the layer that is searched now.
        words = _search(options, machine)
        with Line() as line:

            def report(done: int, total: int, before: int, layers: int) -> None:
                place = f", layer {before + 1:,.0f} of {layers:,}" if layers > 1 else ""
                line.show(f"{done:,} of about {total:,} mappings{place}", before + min(done / total, 1.0), layers)

            searches = mapped_layers(layers, machine, options.arch, report, **words)
        return searches, (searches[0].mapping, searches[0].cost)
    if flags := given(options, SEARCH):
        raise ValueError(f"{flags[0]} is for a search, and --mapping gives the mapping")
    return None, given_mapping(options.mapping, layers[0].value, machine, options.arch)


def _search(options: argparse.Namespace, machine: Any) -> dict[str, Any]:
    """What the flags say of a search, as `sweeps.studies.map.network.best_mapping` takes it."""
    mappings = whole_setting(options, "mappings", MAPPINGS)
    if mappings > MOST_MAPPINGS:
        raise ValueError(f"--mappings {mappings} must be at most {MOST_MAPPINGS}")
    seed, pad = whole_setting(options, "seed", 0, zero=True), 0.0 if options.pad is None else _share(options.pad)
    objective, method = options.objective or "edp", options.search or "random"
    # Objectives other than cycles need energies, which some architectures do not state.
    if objective != "cycles" and not machine.costs_energy:
        instead = "give --energies or --objective cycles"
        raise ValueError(f"--objective {objective}: {options.arch} has no energies; {instead}")
    numbers = {"mappings": mappings, "seed": seed, "pad": pad}
    return {"objective": objective, "method": method, "bypass": options.bypass, **numbers}


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        # Not a number fails the comparison below, like every number out of range.
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"--pad {text} must be a share from 0 to 1, such as 0.05")
    return share
