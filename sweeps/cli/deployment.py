"""Flags of a deployment: the spread of a model over devices, and its precisions."""

import argparse
from typing import Any

from sweeps.cli.leaf_flags import add_flags, leaf_flags

CONCERNS = ("jaxroof.deployment.parallelism", "jaxroof.deployment.deployment")
"""Modules whose leaves have flags."""


def flags() -> dict[str, Any]:
    """Flags of a deployment's leaves, by name."""
    return leaf_flags(*CONCERNS)


def degrees() -> tuple[str, ...]:
    """Parallel degrees, which have flags of their own."""
    # The placeholder N marks degrees: the other flags of that module are words and switches.
    return tuple(name for name, flag in leaf_flags("jaxroof.deployment.parallelism").items() if flag.placeholder == "N")


def arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags."""
    add_flags(parser, flags())
    parser.add_argument(
        "--adapters", metavar="SETTINGS", help="low-rank adapters that requests run with: rank=16,loaded=32,targets=q,v"
    )
    parser.add_argument("--attention", metavar="PRECISION", help="of attention products (default: the model's 16 bits)")


def settings(options: argparse.Namespace) -> dict[str, str | bool]:
    """Settings of `sweeps.case`'s deployment that the flags give, by name."""
    names = (*flags(), "adapters")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.attention is not None:
        given["attention_compute"] = options.attention
    return given
