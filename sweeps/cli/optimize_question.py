"""Questions of `jaxroof optimize`: a specification with what flags say in its place."""

import argparse
from typing import Any

from sweeps.cli.common import given_values, listed, named_settings, overrides, whole_number

LIMITS = {"max": "most", "min": "least"}
"""Flag of a limit -> what it is."""


def asked(source: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """The specification with what flags say in its place."""
    # A specification whose table is no table is passed on, and refused where specifications are checked.
    goals = dict(source.get("optimize", {})) if isinstance(source.get("optimize", {}), dict) else source["optimize"]
    aims = {flag: getattr(options, flag) for flag in ("minimize", "maximize") if getattr(options, flag)}
    if aims:
        # A goal by flag takes the place of all goals of the specification, not only of the same direction.
        goals = {key: value for key, value in goals.items() if key not in ("minimize", "maximize")}
        goals |= {flag: [name.strip() for name in text.split(",")] for flag, text in aims.items()}
    for flag, text in given_values(options, ("starts", "steps", "grid", "seed")).items():
        goals[flag] = int(whole_number(f"--{flag}", text, zero=flag == "seed"))
    limits = source.get("constraints", {})
    # Limits by flag are merged into the specification's, one bound at a time.
    for flag in LIMITS:
        for name, value in named_settings(f"--{flag}", getattr(options, flag), "tpot=40ms").items():
            limits = {**limits, name: {**limits.get(name, {}), flag: value}}
    per = {} if options.per is None else {"per": listed(options.per)}
    table, set_by_flag = source.get("set", {}), overrides(options.set)
    figures = {"set": {**table, **set_by_flag}} if set_by_flag and isinstance(table, dict) else {}
    return {**source, **per, **figures, "optimize": goals, "constraints": limits}
