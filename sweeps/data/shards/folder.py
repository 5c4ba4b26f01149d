"""A folder of shards shared by processes: one writer, whole files only, and only written files are read."""

import contextlib
import errno
import hashlib
import os
import pathlib
import re
import socket
import stat
import time
from collections.abc import Iterator

from hwspaces.files import interrupted, unfinished
from hwspaces.files.unfinished import NO_LINK, PREFIX

LOCK = ".lock"
"""Name of the file whose lock the writing process holds; the system lets go of it however the process ends."""

LEFTOVER = re.compile(re.escape(PREFIX) + r".+-\d+-\d+-(shard-\d+\.nc|frame\.nc|manifest\.jsonl)")
"""Names of files of a sweep that are not whole."""

HOLDER = re.compile(r"process \d+ on \S+")
"""What a lock says."""

LOCK_TRIES, LOCK_PAUSE = 5, 0.05
"""How often a lock that is taken is asked for, and s between: `writer` holds it for a moment to see who does."""


def written(path: pathlib.Path, content: bytes) -> str:
    """Write a file that appears under its name only when all of it is on the disk; returns its SHA-256.

    Raises:
      ValueError: one line that names the file and what the system says: no space left, no permission, no such folder.
    """
    part = unfinished.begun(path)
    try:
        part.write_bytes(content)
    except OSError as error:
        words = unfinished.refusal(path, error, part)
        unfinished.discarded(part)
        raise ValueError(words) from None
    return adopted(part, path)[1]


def adopted(part: pathlib.Path, path: pathlib.Path) -> tuple[int, str]:
    """Give a file that is complete its name, once it is on the disk; returns its size and SHA-256.

    Raises:
      ValueError: one line that names the file and what the system says.
    """
    try:
        with open(part, "rb") as file:
            size, checksum = os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        unfinished.discarded(part)
        raise ValueError(unfinished.refusal(path, error)) from None
    unfinished.adopted(part, path)
    return size, checksum


def checked(path: pathlib.Path, size: int, sha256: str) -> bytes:
    """The content of a file that is known by its size and checksum.

    Raises:
      ValueError: one line, where it is missing, cannot be read, or is not what was written.
    """
    try:
        actual_size = path.stat().st_size
        # A file of another size is damaged, so it is not read.
        content = path.read_bytes() if actual_size == size else b""
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if actual_size != size:
        raise ValueError(f"{path} is damaged: it has {actual_size:,} bytes in place of {size:,}")
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} is damaged: its checksum is not the one it was written with")
    return content


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Be the one process that writes into a folder, which is made where there is none.

    Leftovers of processes that were killed vanish, before and after. The lock is on the file that has the name when it
    is taken: whoever deletes that file lets a second process in, which harms nothing but has shards computed twice.

    Raises:
      ValueError: one line, where another process writes there, the folder cannot be written to, or its lock is a link
        or another file than a lock.
    """
    try:
        folder.mkdir(exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | NO_LINK, 0o666)
    except FileNotFoundError:
        raise ValueError(f"{folder}: there is no folder {folder.parent}") from None
    except FileExistsError:
        raise ValueError(f"{folder} is a file; give the name of a folder") from None
    except OSError as error:
        # A link, a folder or a device stands where the lock should be.
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise ValueError(_no_lock(folder)) from None
        raise ValueError(f"{folder} cannot be written to: {error.strerror}") from None
    try:
        # Foreign files are refused before anything is written to them; leftovers are removed under the lock.
        _require_lock(handle, folder)
        _lock(handle, folder)
        interrupted.register(folder, _clean)
        _clean(folder)
        with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        try:
            yield
        finally:
            _clean(folder)
    finally:
        interrupted.forget(folder)
        os.close(handle)


def _require_lock(handle: int, folder: pathlib.Path) -> None:
    """ValueError of one line for a file that must not be written over: what no process of ours made."""
    about = os.fstat(handle)
    # A second hard link or other content: writing to it would change somebody's file.
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1 or (about.st_size and _said(handle) is None):
        raise ValueError(_no_lock(folder))


def _no_lock(folder: pathlib.Path) -> str:
    return f"{folder / LOCK} is not a lock that jaxroof made, but a link or another file: remove it"


def _lock(handle: int, folder: pathlib.Path) -> None:
    import fcntl

    for left in reversed(range(LOCK_TRIES)):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # Either error means that another process holds the lock; anything else is no such refusal.
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ValueError(f"{folder} cannot be locked: {error.strerror}") from None
        if left:
            time.sleep(LOCK_PAUSE)
    raise ValueError(f"{folder} is being written by {_holder(folder)}; wait for it, or stop it")


def _clean(folder: str | os.PathLike[str]) -> None:
    unfinished.cleaned(pathlib.Path(folder), LEFTOVER)


def writer(folder: pathlib.Path) -> str | None:
    """Process that writes into a folder right now, as "process 71 on host"; None where there is none."""
    import fcntl

    with contextlib.suppress(OSError), _opened_lock(folder) as handle:
        try:
            # A shared lock is refused exactly while a writer holds its exclusive one.
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return _said(handle) or "another process"
    return None


def _holder(folder: pathlib.Path) -> str:
    with contextlib.suppress(OSError), _opened_lock(folder) as handle:
        return _said(handle) or "another process"
    return "another process"


@contextlib.contextmanager
def _opened_lock(folder: pathlib.Path) -> Iterator[int]:
    """A folder's lock, opened for reading."""
    # Opening a pipe in place of the lock must not wait for its writer.
    handle = os.open(folder / LOCK, os.O_RDONLY | NO_LINK | getattr(os, "O_NONBLOCK", 0))
    try:
        yield handle
    finally:
        os.close(handle)


def _said(handle: int) -> str | None:
    """Holder of a lock, by its file; None where the file says something else."""
    words = HOLDER.fullmatch(os.pread(handle, 300, 0).decode("utf-8", "replace"))
    return words[0] if words else None
