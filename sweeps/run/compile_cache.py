"""Folder of compiled programs: what one process has compiled, the next one need not."""

import contextlib
import os
import pathlib
import sys
import warnings
from collections.abc import Iterator

from jaxroof.arrays import jax

NAME = "jaxroof"
"""Of the folder, inside the user's cache folder."""

FOLDER, SHORTEST = "JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"
"""Of the environment: what JAX reads when it is imported."""


def compilation_cache() -> None:
    """Keep compiled programs from here on until the process ends. To be called before anything is compiled.

    The environment variable JAX_COMPILATION_CACHE_DIR goes first. Where no folder can be written, nothing is kept.

    Raises:
      ValueError: one line, where the folder of JAX_COMPILATION_CACHE_DIR cannot be made.
    """
    asked = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    if asked is not None and "://" not in asked:
        try:
            os.makedirs(asked, exist_ok=True)
        except OSError as error:
            why = f"{asked} is not a folder and cannot be made: {error.strerror}"
            raise ValueError(f"JAX_COMPILATION_CACHE_DIR: {why}; unset it, or name another") from None
        warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")  # a shared one
    if asked is None:
        folder = _folder()
        if folder is None:
            return
        jax.config.update("jax_compilation_cache_dir", folder)
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
    shortest = jax.config.jax_persistent_cache_min_compile_time_secs if imported else None  # type: ignore[attr-defined]
    if imported:
        _keep(folder, 0.0)
    else:
        os.environ[FOLDER], before = folder, os.environ.get(SHORTEST)
        os.environ[SHORTEST] = "0"
    try:
        yield
    finally:
        if not imported:
            del os.environ[FOLDER], os.environ[SHORTEST]
            if before is not None:
                os.environ[SHORTEST] = before
            shortest = float(before or 1.0)
        if "jax" in sys.modules:
            _keep(None, shortest)


def _settled(imported: bool) -> bool:
    """Whether JAX has been told where to keep programs, or to keep none."""
    if imported:
        return jax.config.jax_compilation_cache_dir is not None or not jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    may = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "true").lower() in ("1", "true", "yes", "on", "y", "t")
    return FOLDER in os.environ or not may


def _keep(folder: str | None, shortest: float | None) -> None:
    from jax.experimental.compilation_cache import compilation_cache

    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", shortest)
    compilation_cache.reset_cache()  # JAX looks for its folder only once


def _folder(made: bool = True) -> str | None:
    """The user's folder of compiled programs; None where it cannot be written.

    Args:
      made: make it; else JAX does when it keeps its first program there.
    """
    folder = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / NAME
    with contextlib.suppress(OSError):
        if made:
            folder.mkdir(parents=True, exist_ok=True)
    there = folder if made else next(place for place in (folder, *folder.parents) if place.exists())
    return str(folder) if os.access(there, os.W_OK | os.X_OK) else None
