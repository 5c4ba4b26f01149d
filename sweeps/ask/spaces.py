"""Design spaces in specifications: the device, its laws and the ranges of its knobs in place of hardware and axes."""

import difflib
import functools
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from hwspaces.accelerators.space import space

FOLDER = pathlib.Path(__file__).parents[1] / "specs"


@functools.cache
def names() -> tuple[str, ...]:
    """What the distribution's specifications are called."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def specification(name_or_path: str | os.PathLike[str]) -> pathlib.Path:
    """The file that a user's word means: one that is there, else the distribution's of this name.

    Raises:
      ValueError: one line with all names, and the one that was probably meant: there is no such file.
    """
    path = pathlib.Path(name_or_path)
    if path.is_file():
        return path
    text = os.fspath(name_or_path)
    if text in names():
        return FOLDER / f"{text}.toml"
    if path.exists() or "\0" in text or (path.suffix and path.suffix != ".toml"):
        return path  # whoever reads it says what is wrong with it
    known = f"those of the distribution are named {', '.join(names())}"
    # A path to a file that is not there may have meant the distribution's name, or one that is spelt like it.
    if path.stem in names():
        known = f"the one of the distribution is named {path.stem} ({known})"
    elif close := difflib.get_close_matches(path.stem, names(), n=1, cutoff=0.6):
        known = f"did you mean {close[0]}? {known}"
    raise ValueError(f"{text}: no such file; {known}")


HARDWARE = "hardware."


def spaced(source: Mapping[str, Any]) -> Mapping[str, Any]:
    """The specification with the device of its space as hardware and a range for every knob that it does not give.

    Raises:
      ValueError: one line: an unknown space, or hardware besides.
    """
    if "space" not in source:
        return source
    name = source["space"]
    if not isinstance(name, str):
        raise ValueError(f"space = {name!r} must be the name or file of one design space")
    if "hardware" in source:
        raise ValueError(f"space = {name!r}, and hardware = {source['hardware']!r} besides: give one")
    design = space(name)
    rest = {key: value for key, value in source.items() if key != "space"}
    # Knobs that any of these tables gives, as a number, a range or a law, are not free.
    tables = {key: value for key in ("axes", "set", "laws") if isinstance(value := source.get(key, {}), Mapping)}
    given = {path for table in tables.values() for path in table}
    free = {path: value for path, value in design.knobs.items() if path not in given}
    rest["hardware"] = name
    # Axes that are no table are refused where tables are checked.
    return rest if "axes" in source and "axes" not in tables else rest | {"axes": free | dict(tables.get("axes", {}))}


def in_space(source: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The specification with a space in place of its hardware and of all that it says of the hardware's figures."""
    rest = {key: value for key, value in source.items() if key != "hardware"}
    # Fixed figures, ranges and laws of the hardware would contradict the knobs of the space.
    for key in ("axes", "set", "laws"):
        if isinstance(rest.get(key), Mapping):
            rest[key] = {path: value for path, value in rest[key].items() if not path.startswith(HARDWARE)}
    return rest | {"space": name}
