"""Files under way when a process is stopped: those that are removed and those that were finished.

Whoever ends a process looks it up among the modules that are loaded: where it is not, no file has been begun. It
imports nothing of this package, so that it is whole as soon as it is there.
"""

import _thread
import os

TYPE_CHECKING = False  # as `typing` has it, which this must not import
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    Made = TypeVar("Made")

# Path of an unfinished file -> what removes it.
_removals: "dict[str, Callable[[str], object]]" = {}
_finished: list[str] = []
_changing = _thread.allocate_lock()


def register(path: "str | os.PathLike[str]", remove: "Callable[[str], object]" = os.unlink) -> None:
    """Note a file that is not whole yet, before it is made.

    Args:
      path: the file, under its temporary name; or a folder, where `remove` knows what in it is not whole.
      remove: called with `path` where the process is stopped before `forget`.
    """
    with _changing:
        _removals[os.fspath(path)] = remove


def made(path: "str | os.PathLike[str]", make: "Callable[[], Made]") -> "Made":
    """Result of `make()`, which makes the file `path`: at no moment is it there and not registered.

    Raises:
      OSError: of `make`; then nothing is registered.
    """
    with _changing:
        # Under the lock: the process cannot be stopped between making a file and noting it.
        handle = make()
        _removals[os.fspath(path)] = os.unlink
        return handle


def forget(path: "str | os.PathLike[str]", finished: "str | os.PathLike[str] | None" = None) -> None:
    """Note that a registered file is gone, or that it is whole and has the name `finished` now."""
    with _changing:
        _removals.pop(os.fspath(path), None)
        if finished is not None:
            _finished.append(os.fspath(finished))


def begun() -> None:
    """Forget which files were finished: another run begins."""
    _finished.clear()


def finished() -> tuple[str, ...]:
    """Names of the files that this process has finished."""
    return tuple(_finished)


def removed() -> None:
    """Remove every registered file. For a process that ends now: whoever registers another one waits for ever.

    Twice, since a library that had been given the name may be opening the file at this moment.
    """
    # The lock is never given back: no file is begun any more while the process ends.
    _changing.acquire()
    for path, remove in (*_removals.items(), *_removals.items()):
        try:
            remove(path)
        except OSError:
            continue  # it is not there any more
