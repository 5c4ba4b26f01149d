"""Folder of compiled programs: what one process has compiled, the next one need not."""

import contextlib
import functools
import os
import pathlib
import stat
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from jaxroof.numerics.arrays import jax, jax_setting

NAME = "jaxroof"
"""Of the folder, inside the user's cache folder."""

FOLDER, SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
"""Of the environment: what JAX reads when it is imported."""

UNREADABLE, UNWRITABLE = (f"Error {what} persistent compilation cache entry" for what in ("reading", "writing"))
"""How JAX's warnings begin."""

ENTRIES = ("-cache", "-atime")
"""Ends of the names of JAX's files."""


def compilation_cache() -> None:
    """Keep compiled programs from here on until the process ends. To be called before anything is compiled.

    The environment variable JAX_COMPILATION_CACHE_DIR goes first. Where no folder can be written, nothing is kept; nor
    in one that others may write into, since a program is run as it is found. A folder with a damaged file is emptied.

    Raises:
      ValueError: one line, where the folder of JAX_COMPILATION_CACHE_DIR cannot be made.
    """
    configured = jax_setting("jax_compilation_cache_dir")
    # A folder of a remote store (`gs://...`) is not made here.
    if configured is not None and "://" not in configured:
        try:
            os.makedirs(configured, exist_ok=True)
        except OSError as error:
            why = f"{configured} is not a folder and cannot be made: {error.strerror}"
            raise ValueError(f"JAX_COMPILATION_CACHE_DIR: {why}; unset it, or name another") from None
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")  # a shared one
    if configured is None:
        folder = _folder()
        if folder is None:
            return
        jax.config.update("jax_compilation_cache_dir", folder)
        warnings.filterwarnings("default", "Error (reading|writing) persistent compilation cache")
        # The hook for warnings is installed once per process, however often this is called.
        if not isinstance(warnings.showwarning, _Mending):
            warnings.showwarning = _Mending(folder, warnings.showwarning)
    # JAX keeps only programs that took a second or longer by default; here all are kept.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


@contextlib.contextmanager
def kept_programs() -> Iterator[None]:
    """A context in which what is compiled is kept; programs of the caller's own, outside, are not.

    Nothing is done where JAX has a folder already, or may keep nothing. JAX need not be imported.
    """
    imported = "jax" in sys.modules
    folder = None if _settled(imported) else _folder(made=imported)
    if folder is None:
        yield
        return
    shortest = jax_setting("jax_persistent_cache_min_compile_time_secs") if imported else None
    # JAX reads the environment when it is imported: settings go there where that is still to come.
    if imported:
        _keep(folder, 0.0)
    else:
        os.environ[FOLDER], before = folder, os.environ.get(SHORTEST)
        os.environ[SHORTEST] = "0"
    shown = warnings.showwarning
    warnings.showwarning = mending = _Mending(folder, shown)
    try:
        yield
    finally:
        # Somebody else may have replaced the hook in between, which is then theirs to restore.
        if warnings.showwarning is mending:
            warnings.showwarning = shown
        if not imported:
            del os.environ[FOLDER], os.environ[SHORTEST]
            if before is not None:
                os.environ[SHORTEST] = before
            # 1 s is JAX's own default, to which it returns if it was imported inside the context.
            shortest = float(before or 1.0)
        if "jax" in sys.modules:
            _keep(None, shortest)


def _settled(imported: bool) -> bool:
    """Whether JAX has been told where to keep programs, or to keep none."""
    if imported:
        return jax_setting("jax_compilation_cache_dir") is not None or not jax_setting("jax_enable_compilation_cache")
    # The texts that JAX itself takes for true.
    may = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "true").lower() in ("1", "true", "yes", "on", "y", "t")
    return FOLDER in os.environ or not may


def _keep(folder: str | None, shortest: float | None) -> None:
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", shortest)
    compilation_cache.reset_cache()  # JAX looks for its folder only once


def _folder(made: bool = True) -> str | None:
    """The user's folder of compiled programs; None where it cannot be written, or others may write into it.

    Args:
      made: make it; else JAX does when it keeps its first program there.
    """
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / NAME
    with contextlib.suppress(OSError):
        if made:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Rights are those of the nearest folder that exists, in which the missing ones would be made.
    there = folder if made else next(place for place in (folder, *folder.parents) if place.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        return None
    why = danger(folder)
    if why is not None:
        _say(f"compiled programs are not kept: {why}")
    return str(folder) if why is None else None


def danger(folder: pathlib.Path) -> str | None:
    """Who else may put programs into a folder, in words; None where it is the user's alone, or is not there."""
    if not hasattr(os, "geteuid"):  # not a Unix
        return None
    for status_of in (os.stat, os.lstat):  # a link of somebody else's may lead elsewhere tomorrow
        try:
            state = status_of(folder)
        except OSError:
            return None
        if state.st_uid != os.geteuid():
            return f"{folder} belongs to another user; remove it, or set XDG_CACHE_HOME to a folder of your own"
    # Programs are executed as they are read: whoever may write here could run code as this user.
    if os.stat(folder).st_mode & stat.S_IWOTH:
        return f"every user may write into {folder}; chmod o-w {folder}"
    return None


class _Mending:
    """Shows warnings; those of JAX about damaged programs are one line, and the folder is emptied.

    JAX compiles what it cannot read, but never replaces a file: a damaged one would be met in every run.
    """

    def __init__(self, folder: str, shown: Callable[..., Any]):
        self._folder, self._shown = folder, shown

    def __call__(self, message: Any, category: Any, *place: Any, **more: Any) -> None:
        text = str(message)
        if not text.startswith((UNREADABLE, UNWRITABLE)):
            self._shown(message, category, *place, **more)
        elif text.startswith(UNWRITABLE):
            _say(f"compiled programs are not kept: {self._folder} cannot be written ({_cause(text)})")
        elif emptied(pathlib.Path(self._folder)):
            _say(f"a compiled program in {self._folder} was damaged: the folder has been emptied, and fills again")
        else:
            _say(f"a compiled program in {self._folder} cannot be read: remove the folder ({_cause(text)})")


def emptied(folder: pathlib.Path) -> bool:
    """Remove JAX's files from a folder; whether all of them are gone."""
    remaining = 0
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.endswith(ENTRIES):
            try:
                path.unlink(missing_ok=True)  # another process may have been quicker
            except OSError:
                remaining += 1
    return not remaining


def _cause(text: str) -> str:
    return " ".join(text.rpartition("': ")[2].split())[:200]


@functools.cache
def _say(line: str) -> None:
    """A line for the user, once."""
    print(f"jaxroof: {line}", file=sys.stderr)
