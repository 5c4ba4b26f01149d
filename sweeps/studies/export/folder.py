"""Files of one folder that appear together: other programs' formats that are more than one file."""

import contextlib
import os
import pathlib
from collections.abc import Iterable, Mapping

from hwspaces.files.output import KINDS, replacing

Contents = Mapping[str, Iterable[bytes]]
"""Parts of each file by its path inside the folder."""


def written(
    folder: str | os.PathLike[str], contents: Contents, kinds: tuple[str, ...], what: str, force: bool = False
) -> list[pathlib.Path]:
    """Write files into a folder that holds nothing else; none appears before all are done.

    Args:
      folder: it is made where there is none.
      contents: of every file.
      kinds: keys of `hwspaces.files.output.KINDS`; a file is of the first one with its suffix.
      what: what a file there is expected to be, in messages: "rank of this step".
      force: replace files of these names that jaxroof did not write.

    Raises:
      ValueError: one line, for a folder or file that must not or cannot be written.
    """
    folder = pathlib.Path(folder)
    new_folders: list[pathlib.Path] = []
    try:
        try:
            _make(folder, new_folders)
            paths = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
            # A file that is not among those to write means that the folder holds something else.
            others = sorted({*paths} - contents.keys())
            if not others:
                for name in contents:
                    _make((folder / name).parent, new_folders)
        except OSError as error:
            raise ValueError(f"{folder} cannot be written: {error.strerror}") from None
        if others:
            raise ValueError(f"{folder} has {others[0]} in it, which is no {what}: give an empty folder")
        with contextlib.ExitStack() as stack:  # files appear when the last one is written
            for name, parts in contents.items():
                kind = next(kind for kind in kinds if name.endswith(KINDS[kind].suffixes))
                begun = stack.enter_context(replacing(folder / name, (kind,), force=force))
                with open(begun, "wb") as file:
                    file.writelines(parts)
    except BaseException:
        # Remove the folders that were made here, the innermost first; one that is not empty stays.
        for path in reversed(new_folders):
            with contextlib.suppress(OSError):
                path.rmdir()
        raise
    return [folder / name for name in contents]


def _make(folder: pathlib.Path, made: list[pathlib.Path]) -> None:
    """Make a folder and those between it and one that is there, but for the parent of the first."""
    if folder.is_dir():
        return
    # Only folders inside of the first one get parents: the parent of the first one has to exist.
    if made:
        _make(folder.parent, made)
    folder.mkdir()
    made.append(folder)
