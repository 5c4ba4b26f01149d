"""`jaxroof status`: progress of a folder of shards, at any time."""

import argparse
import pathlib
from typing import Any

from sweeps.answers.answer import say
from sweeps.answers.to_json import print_json
from sweeps.ask.text import escaped, rate_text
from sweeps.cli.common import json_argument


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    parser.add_argument("folder", metavar="DIR", help="a folder that `jaxroof sweep -o DIR/` has begun")
    parser.add_argument("--check", action="store_true", help="read every shard, and compare its checksum")
    json_argument(parser)


def run(options: argparse.Namespace) -> None:
    """Print what the manifest says."""
    from sweeps.data.shards.status import status

    state = status(pathlib.Path(options.folder), options.check)
    if options.json:
        return print_json(state, indent=None)
    _print(state)


def _print(found: dict[str, Any]) -> None:
    from sweeps.answers.tables import size

    share = 100 * found["points_done"] / max(found["points"], 1)
    say(escaped(found["title"], breaks=True))
    say(f"points   {found['points_done']:,} of {found['points']:,} ({share:.3g} %)")
    say(f"shards   {found['shards_done']:,} of {found['shards']:,}, {size(found['bytes'])}")
    if found["keep"]:
        say(f"kept     {', '.join(found['keep'])}")
    if found["points_per_second"]:
        say(f"rate     {rate_text(found['points_per_second'])} points/s per process, as measured of its shards")
    say(f"made by  jaxroof {found['software']['jaxroof']}, jax {found['software']['jax']}, on {found['hardware']}")
    for name in found["missing_files"]:
        say(f"damaged  {name}")
    # Four states: being written, damaged, complete, interrupted.
    if found["writer"]:
        say(f"state    {found['writer']} is writing")
    elif found["missing_files"]:
        say("state    the command that began it computes again what is damaged")
    elif found["shards_done"] == found["shards"]:
        say("state    complete")
    else:
        say("state    interrupted: the command that began it continues it")
