"""Outputs and files of a page's commands and examples as they are today, run in a folder of their own."""

import contextlib
import io
import os
import pathlib
import sys
import traceback
import warnings
from collections.abc import Iterator

from tests.pages.page import ROOT, Block, words_of
from tests.pages.screenshot import screenshot

WIDTH = 180
"""Columns of a page's tables."""

LINKED = ("sweeps", "workloads", "hwspaces", "docs")
"""Folders of the repository that commands name files of."""


class NotInstalled(Exception):
    """A library that an example needs and this machine does not have."""


class Made:
    """The outputs and files of a page's blocks, in their order: later commands find the files of earlier ones."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self._names: dict = {}
        self._printed: dict[tuple[str, bool], str] = {}  # by command or Python, and whether it is refused
        for name in LINKED:
            (folder / name).symlink_to(ROOT / name)

    def of(self, block: Block) -> str | pathlib.Path:
        """The text of an output or file, or the path of a picture; nothing of what is only run.

        Raises:
          ValueError: one line that names the command, and where it fails.
          NotInstalled: the name of a library that the example imports.
        """
        with _inside(self.folder), _origin(block):
            if block.kind == "file":
                pathlib.Path(block.file).write_text(block.text, encoding="utf-8")
                return block.text
            printed = "" if block.code is None else self._run(block.code)
            for command in block.commands:
                printed = self._output(block, command)
        if block.kind == "run":
            return block.text
        if block.kind == "output":
            return block.shown.of(printed)
        picture = self.folder / block.file
        if block.query is not None:
            from tests.ui.browser import screenshot as explored

            explored(block.query, picture)
        with _origin(block):
            # Of a page that a command has written, the picture is what a browser shows.
            if not picture.is_file() and (page := picture.with_suffix(".html")).is_file():
                screenshot(page, picture)
        if not picture.is_file():
            raise ValueError(f"no command has written {block.file}")
        return picture

    def _output(self, block: Block, command: str) -> str:
        if (command, block.refused) not in self._printed:
            from sweeps.cli import main

            words, file = words_of(command)
            if words[0] == "ui":
                raise ValueError(f"{command} serves until Ctrl-C: its block must say `not run: ...`")
            with _captured() as (printed, errors), _as_users_have_it() as warned:
                status = main(words)
            error = errors.getvalue().strip()
            if status != (2 if block.refused else 0):
                raise ValueError(f"status {status} of {command}: {(error.splitlines() or [''])[-1]}")
            if warned:
                raise ValueError(f"{command} warns: {warned[0].message}")
            self._printed[command, block.refused] = f"{error}\n" if block.refused else printed.getvalue()
            if file is not None:
                pathlib.Path(file).write_text(printed.getvalue(), encoding="utf-8")
        return self._printed[command, block.refused]

    def _run(self, code: str) -> str:
        if (code, False) not in self._printed:
            with _captured() as (printed, _), _as_users_have_it() as warned:
                exec(compile(code, "example", "exec"), self._names)
            if warned:
                raise ValueError(f"the Python above warns: {warned[0].message}")
            self._printed[code, False] = printed.getvalue()
        return self._printed[code, False]


@contextlib.contextmanager
def _captured() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    printed, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        yield printed, errors


@contextlib.contextmanager
def _as_users_have_it() -> Iterator[list[warnings.WarningMessage]]:
    """JAX's own promotion, which tests make strict; the warnings that a user would see."""
    import jax

    promotion = jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow")
    with promotion[0], promotion[1], warnings.catch_warnings(record=True) as warned:
        yield warned


@contextlib.contextmanager
def _origin(block: Block) -> Iterator[None]:
    """Errors of an example as one line that says where they come from."""
    try:
        yield
    except ValueError:
        raise
    except ModuleNotFoundError as error:
        raise NotInstalled(error.name) from error
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise ValueError(
            f"{type(error).__name__} of {' '.join(block.commands) or 'the Python above'} "
            f"at {pathlib.Path(place.filename).name}:{place.lineno}: {error}"
        ) from error


@contextlib.contextmanager
def _inside(folder: pathlib.Path) -> Iterator[None]:
    """The working folder, Python's path and the width of tables."""
    before, width = os.getcwd(), os.environ.get("COLUMNS")
    os.chdir(folder)
    os.environ["COLUMNS"] = str(WIDTH)
    sys.path.append(str(folder))  # behind the project: its packages are not those that are linked here
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        os.chdir(before)
        if width is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = width
