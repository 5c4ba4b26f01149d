"""Specifications that come with the distribution, by name: sweeps, designs, fleets and classes of requests."""

import functools
import os
import pathlib

FOLDER = pathlib.Path(__file__).parents[1] / "specs"


@functools.cache
def names() -> tuple[str, ...]:
    """What the distribution's specifications are called."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def specification(name_or_path: str | os.PathLike) -> pathlib.Path:
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
    if path.stem in names():
        known = f"the one of the distribution is named {path.stem} ({known})"
    raise ValueError(f"{text}: no such file; {known}")
