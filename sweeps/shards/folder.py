"""A folder that several processes may find at once: one writer, whole files only, and only what was written is read."""

import contextlib
import errno
import hashlib
import itertools
import os
import pathlib
import re
import socket
import time
from collections.abc import Iterator

from sweeps.unfinished import forget, register

LOCK = ".lock"
"""Name of the file whose lock the writing process holds; the system lets go of it however the process ends."""

TEMPORARY = ".part-"
"""How names of files begin that are not whole."""

LEFTOVER = re.compile(re.escape(TEMPORARY) + r".+-\d+-\d+-(shard-\d+\.nc|frame\.nc|manifest\.jsonl)")
"""Names that `part` gives, and nobody else."""

LOCK_TRIES, LOCK_PAUSE = 5, 0.05
"""How often a lock that is taken is asked for, and s between: `writer` holds it for a moment to see who does."""

_serial = itertools.count()


def written(path: pathlib.Path, content: bytes) -> str:
    """Write a file that appears under its name only when all of it is on the disk; returns its SHA-256.

    Raises:
      ValueError: one line that names the file and what the system says: no space left, no permission, no such folder.
    """
    unfinished = part(path)
    try:
        unfinished.write_bytes(content)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None
    return adopted(unfinished, path)[1]


def part(path: pathlib.Path) -> pathlib.Path:
    """Where a file is written until all of it is there: a name that no other process writes to."""
    return path.with_name(f"{TEMPORARY}{socket.gethostname()}-{os.getpid()}-{next(_serial)}-{path.name}")


def adopted(unfinished: pathlib.Path, path: pathlib.Path) -> tuple[int, str]:
    """Give a file that is complete its name, once it is on the disk; returns its size and SHA-256.

    Raises:
      ValueError: one line that names the file and what the system says.
    """
    try:
        with open(unfinished, "rb+") as file:
            os.fsync(file.fileno())
            size, checksum = os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()
        os.replace(unfinished, path)
        synced(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise ValueError(f"{path} cannot be written: {error.strerror}") from None
    return size, checksum


def synced(folder: pathlib.Path) -> None:
    """Put a folder's own content, the names in it, on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def checked(path: pathlib.Path, size: int, sha256: str) -> bytes:
    """The content of a file that is known by its size and checksum.

    Raises:
      ValueError: one line, where it is missing, cannot be read, or is not what was written.
    """
    try:
        found = path.stat().st_size
        content = path.read_bytes() if found == size else b""
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    if found != size:
        raise ValueError(f"{path} is damaged: it has {found:,} bytes in place of {size:,}")
    if hashlib.sha256(content).hexdigest() != sha256:
        raise ValueError(f"{path} is damaged: its checksum is not the one it was written with")
    return content


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Be the one process that writes into a folder, which is made where there is none.

    Leftovers of processes that were killed vanish, before and after. The lock is on the file that has the name when it
    is taken: whoever deletes that file lets a second process in, which harms nothing but has shards computed twice.

    Raises:
      ValueError: one line, where another process writes there or the folder cannot be written to.
    """
    try:
        folder.mkdir(exist_ok=True)
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:
        raise ValueError(f"{folder}: there is no folder {folder.parent}") from None
    except FileExistsError:
        raise ValueError(f"{folder} is a file; give the name of a folder") from None
    except OSError as error:
        raise ValueError(f"{folder} cannot be written to: {error.strerror}") from None
    try:
        _lock(handle, folder)
        register(folder, _clean)
        _clean(folder)
        with contextlib.suppress(OSError):  # a full disk: the lock holds without a name
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)
        try:
            yield
        finally:
            _clean(folder)
    finally:
        forget(folder)
        os.close(handle)


def _lock(handle: int, folder: pathlib.Path) -> None:
    import fcntl

    for left in reversed(range(LOCK_TRIES)):
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise ValueError(f"{folder} cannot be locked: {error.strerror}") from None
        if left:
            time.sleep(LOCK_PAUSE)
    raise ValueError(f"{folder} is being written by {_holder(folder)}; wait for it, or stop it")


def _clean(folder: pathlib.Path) -> None:
    """Take away files that never became whole; what cannot be taken away does no harm."""
    with contextlib.suppress(OSError):
        for name in filter(LEFTOVER.fullmatch, os.listdir(folder)):
            (folder / name).unlink(missing_ok=True)


def writer(folder: pathlib.Path) -> str | None:
    """Who writes into a folder right now, as "process 71 on host"; None where nobody does."""
    import fcntl

    try:
        handle = os.open(folder / LOCK, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _holder(folder)
    finally:
        os.close(handle)
    return None


def _holder(folder: pathlib.Path) -> str:
    with contextlib.suppress(OSError), open(folder / LOCK, encoding="utf-8", errors="replace") as file:
        words = re.fullmatch(r"process \d+ on \S+", file.read(300))
        return words[0] if words else "another process"
    return "another process"
