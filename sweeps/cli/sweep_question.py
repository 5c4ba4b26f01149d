"""Questions of `jaxroof sweep`: a specification with what flags say of its output."""

import argparse
import pathlib
from typing import Any

from sweeps.cli.common import listed, whole_settings


def asked(options: argparse.Namespace) -> dict[str, Any]:
    """The specification with what the flags say of its output."""
    from sweeps.ask.spaces import in_space
    from sweeps.ask.spec import content, spec

    path = pathlib.Path(options.spec)
    source = content(path)
    if options.space is not None:
        source = in_space(source, options.space)
    output: dict[str, Any] = {}
    if options.keep is not None:
        # The flag may be given several times, each time with several words.
        output["keep"] = [word.strip() for words in options.keep for word in words.split(",")]
    if options.no_prune:
        output["prune"] = False
    output |= {name: int(number) for name, number in whole_settings(options, ("compression", "digits")).items()}
    if options.per is not None:
        source["per"] = listed(options.per)
    if output:
        # A table that is no table is passed on, so that the check below names it.
        table = source.get("output", {})
        source["output"] = {**table, **output} if isinstance(table, dict) else table
    # Checked here, before anything is computed, for an error that names the file.
    try:
        spec(source)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return source
