"""Launch text in a file."""

import os
import pathlib

from hwspaces.files.output import replacing


def written(path: str | os.PathLike, text: str, inputs: tuple[str, ...] = (), force: bool = False) -> None:
    """Write a launch text, a .sh or .yaml; the file appears when it is whole.

    Args:
      path: the file.
      text: as `launch_text` makes it.
      inputs: files that were read, which are not written over.
      force: replace a file that jaxroof did not write.

    Raises:
      ValueError: one line, for a file that must not or cannot be written: `hwspaces.files.output`.
    """
    with replacing(path, ("launch",), inputs, force) as name:
        pathlib.Path(name).write_text(text, encoding="utf-8")
