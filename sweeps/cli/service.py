"""Flags of a simulated service: routers, replicas of other kinds, pools, tiers of the cache, and autoscaling."""

import argparse
from typing import Any

from sweeps.ask.words import ServiceWords
from sweeps.cli import common

PLAIN = ("router", "router_weights", "decode_router", "tiers", "admission", "autoscale", "encoders")
"""Words that are one text."""

LISTED = ("also",)
"""Words that are texts, each of one thing."""

SETTINGS = {"prefill": "tp=4", "prefill_policy": "max_sequences=64", "tier_rules": "write=back"}
"""Words that are settings by name, with an example of each."""

FLAGS = (*PLAIN, *LISTED, *SETTINGS, "whole")
"""All of them."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags."""
    group = parser.add_argument_group("replicas and pools: all of them are simulated, with a router before them")
    common.word_arguments(group, *PLAIN, *LISTED, *SETTINGS, of=ServiceWords)
    what = "with --prefill: the cache leaves after the prompt, instead of layer by layer"
    group.add_argument("--whole", action="store_true", help=what)


def wanted(options: argparse.Namespace) -> bool:
    """Whether any flag asks for a service of all replicas."""
    return any(words(options).values())


def words(options: argparse.Namespace) -> dict[str, Any]:
    """What the flags say, by name."""
    found: dict[str, Any] = {name: getattr(options, name, None) for name in PLAIN}
    found |= {name: getattr(options, name, None) or None for name in LISTED}
    for name, example in SETTINGS.items():
        settings = getattr(options, name, None) or []
        found[name] = common.named_settings(f"--{name.replace('_', '-')}", settings, example)
    return found | {"whole": bool(getattr(options, "whole", False))}
