"""The `jaxroof serve` command of a simulation: every key that is set, as the flag that sets it."""

import shlex
from collections.abc import Iterator
from typing import Any

from sweeps.ask.flag_text import flag_text
from sweeps.ask.words import NAMED
from sweeps.cli import deployment
from sweeps.cli.leaf_flags import flag
from sweeps.cli.serve import LOAD
from sweeps.cli.service import PLAIN, SETTINGS
from sweeps.run.simulated.spec import ServeSpec


def serve_command(asked: ServeSpec) -> str:
    """The command, as a shell takes it; it asks for the same simulation, number by number."""
    return shlex.join(["jaxroof", "serve", *_words(asked)])


def _words(asked: ServeSpec) -> Iterator[str]:
    # Model and hardware first, as a reader would write them.
    plain = ("model", "hardware", *NAMED, "slo", *LOAD, *PLAIN, "whole")
    for name in dict.fromkeys(plain):
        value = getattr(asked, name)
        if value is None or value is False or value == _default(name):
            continue
        yield flag(name)
        if value is not True:
            yield str(flag_text(value))
    flags = (*deployment.flags(), "adapters")
    # Leaves of the deployment without a flag of their own are set by path.
    for name, value in asked.deployment.items():
        if name == "attention_compute":
            yield from ("--attention", value)
        elif name not in flags:
            yield from ("--set", f"deployment.{name}={flag_text(value)}")
        elif value is not None and value is not False and value != "false":
            yield from (flag(name), *(() if value is True or value == "true" else (str(flag_text(value)),)))
    tables = (("overrides", "--set"), ("policy", "--policy"), *((name, flag(name)) for name in SETTINGS))
    for name, option in tables:
        for path, value in getattr(asked, name).items():
            yield from (option, f"{path}={flag_text(value)}")


def _default(name: str) -> Any:
    return ServeSpec.__dataclass_fields__[name].default
