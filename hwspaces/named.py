"""Devices by name: accelerators of the catalogue, of files, and those that design spaces start from."""

from pathlib import Path

from hwspaces import load
from hwspaces.entry import HardwareEntry
from hwspaces.space import is_space, space


def hardware(name_or_path: str | Path) -> HardwareEntry:
    """The accelerator of that name, or the one in that file; of a design space, the design that it starts from.

    Args:
      name_or_path: a name or an alias of the catalogue (case, `-`, `_` and spaces do not matter), or the path of
        a `.toml` of the catalogue's schema or a `.json` of the BLIS form; `file.toml#NAME` where the file has several.
        Or the name or file of a design space, whose laws the hardware then has.

    Raises:
      ValueError: one line that names what is wrong: an unknown name with the nearest known ones, a file that is
        missing or unreadable, a field with its value and what is allowed.
    """
    text = str(name_or_path)
    return space(text).entry if is_space(text) else load.hardware(text)
