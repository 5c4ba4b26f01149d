"""`jaxroof train --search`: every layout of a training run on a number of devices, as a table of the best."""

import argparse
from collections.abc import Callable
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli.common import given_values, whole_number, whole_setting
from sweeps.cli.leaf_flags import flag

CHOSEN = ("tp", "pp", "cp", "ep", "dp", "micro_batch", "zero", "recompute", "schedule")
"""Flags that a search sets by itself."""

TOP = 20
"""Layouts that are shown unless told otherwise."""


def run_search(options: argparse.Namespace, training_case: Callable[[argparse.Namespace], Any]) -> None:
    """Print the best layouts, or their JSON."""
    if options.devices is None:
        raise ValueError("--devices N is missing: --search tries every layout of N devices")
    # A flag that the search sets would be ignored, so that it is refused.
    if chosen := given_values(options, CHOSEN):
        name, value = next(iter(chosen.items()))
        raise ValueError(f"{flag(name)} {value}: --search tries every one; leave it out")
    from sweeps.answers.train_search import record, show
    from sweeps.studies.train import MOST_DEVICES, search

    devices = int(whole_number("--devices", options.devices))
    if devices > MOST_DEVICES:
        raise ValueError(f"--devices {devices} must be at most {MOST_DEVICES:,}")
    top = whole_setting(options, "top", TOP)
    case = training_case(options)
    result = search(case, devices)
    if options.json:
        return print_json(record(case, result, devices, top))
    show(case, result, devices, top)
