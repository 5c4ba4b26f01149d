"""Unfinished files: their temporary names, their final names, and leftovers of dead processes."""

import contextlib
import errno
import functools
import itertools
import os
import re
import shutil
import socket
from pathlib import Path

from hwspaces.files import interrupted

PREFIX = ".part-"
"""How names of files begin that are not whole; the host, the process and a serial number follow, then the name."""

LONGEST_NAME = 255
"""B of a file's name, on all usual file systems."""

TRIES = 100
"""Names that are tried for a file, of which some may be taken."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What a system says that has no room for a file."""

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""Flag of `os.open` under which the last part of a name may not be a link."""

_serial = itertools.count()


def begun(path: Path) -> Path:
    """A new empty file beside `path`, to be written and then `adopted`; no link is followed, no other file touched.

    Raises:
      ValueError: one line that names `path` and what the system says.
    """
    # O_EXCL fails where anything has the name, be it a link: nothing is followed or overwritten.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINK
    for _ in range(TRIES):
        name = path.with_name(_part_name(path.name))
        try:
            os.close(interrupted.made(name, functools.partial(os.open, name, flags, 0o666)))
            return name
        except FileExistsError:
            continue
        except OSError as error:
            raise ValueError(refusal(path, error)) from None
    raise ValueError(f"{path} cannot be written: {TRIES} names for a temporary file beside it are taken")


def adopted(unfinished: Path, path: Path) -> None:
    """Give a file that is complete its name, once it is on the disk; it is gone where that fails.

    Raises:
      ValueError: one line that names `path` and what the system says.
    """
    try:
        handle = os.open(unfinished, os.O_RDWR | NO_LINK)
        try:
            # Content goes to the disk before the name: after a loss of power no name stands for half of a file.
            os.fsync(handle)
        finally:
            os.close(handle)
        # Within one file system this is atomic: readers see the old file or the new one.
        os.replace(unfinished, path)
        interrupted.forget(unfinished)
        _synced(path.parent)
    except OSError as error:
        discarded(unfinished)
        raise ValueError(refusal(path, error)) from None


def discarded(unfinished: Path) -> None:
    """Take a file away, where it is still there."""
    with contextlib.suppress(OSError):
        unfinished.unlink()
    interrupted.forget(unfinished)


def cleaned(folder: Path, abandoned: re.Pattern[str] | None = None) -> None:
    """Take away what dead processes left in a folder; what cannot be taken away does no harm.

    Args:
      folder: where to look.
      abandoned: names that nobody can be writing, where the caller knows that by a lock. By default those that
        processes of this host gave which do not live any more.
    """
    # Only this host can say whether a process of its own still lives.
    ours = re.compile(re.escape(f"{PREFIX}{_host()}-") + r"(\d{1,9})-\d+-.+", re.DOTALL)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if abandoned is None:
                named = ours.fullmatch(entry.name)
                left = named is not None and not _alive(int(named[1]))
            else:
                left = abandoned.fullmatch(entry.name) is not None
            # Folders and links of such a name are not files that were begun here.
            if left and entry.is_file(follow_symlinks=False):
                discarded(Path(entry.path))


def refusal(path: Path, error: Exception, unfinished: Path | None = None) -> str:
    """One line for a file that could not be written: its name, what the system says, and the room that there is.

    Args:
      path: the file.
      error: of the system, or of a library that does not pass on what the system says.
      unfinished: what was written of it, so that the system can be asked again.
    """
    if unfinished is not None and not (isinstance(error, OSError) and error.errno in FULL):
        # The library hid the reason, which the system tells again at the next write.
        error = _said_again(unfinished) or error
    if unfinished is not None:  # what was written of it takes no room from what is told
        with contextlib.suppress(OSError):
            os.truncate(unfinished, 0)
    why, known = " ".join(str(error).split()), False
    # Where the disk may be full, or the reason is unknown, the room that there is belongs to the message.
    if isinstance(error, OSError) and error.strerror:
        why, known = error.strerror, error.errno is not None and error.errno > 0 and error.errno not in FULL
    return f"{path} cannot be written: {why}{'' if known else _room((unfinished or path).parent)}"


def _said_again(unfinished: Path) -> OSError | None:
    """Error of the system at a further write to a file, which a library reported without its reason."""
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_APPEND | NO_LINK)
        try:
            # Random bytes take as much room on a file system that compresses.
            wanted = os.urandom(1 << 16)
            while wanted:
                wanted = wanted[os.write(handle, wanted) :]
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        return error
    return None


def _room(folder: Path) -> str:
    """Free bytes of a disk, and the largest file that is allowed."""
    words = []
    with contextlib.suppress(OSError):
        words.append(f"{shutil.disk_usage(folder).free:,} bytes are free in {folder}")
    with contextlib.suppress(ImportError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY:
            words.append(f"a file may have at most {limit:,} bytes (ulimit -f)")
    return "".join(f"; {each}" for each in words)


def _synced(folder: Path) -> None:
    """Put a folder's own content, the names in it, on the disk, where its file system can."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some file systems cannot put a folder on the disk and say so with these numbers.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _part_name(name: str) -> str:
    """A name that no other process gives; of a long name, its end."""
    head = f"{PREFIX}{_host()}-{os.getpid()}-{next(_serial)}-"
    # The limit is one of bytes, which a character may have several of.
    while len(os.fsencode(head + name)) > LONGEST_NAME:
        name = name[1:]
    return head + name


def _host() -> str:
    return socket.gethostname().replace("/", "_")


def _alive(process: int) -> bool:
    """True for a process that this host runs, whoever owns it; where nobody can say, every one lives."""
    if os.name != "posix":
        return True
    try:
        # Signal 0 is not sent: the call only says whether the process is there.
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
