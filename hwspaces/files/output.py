"""Files to write: one rule for all verbs and functions of what may be replaced and what is refused.

A file appears under its name only when all of it is on the disk. It is refused when it is one of the files that are
read, when its name does not end as what is written, and, unless that is forced, when there is a file of that name
that jaxroof did not write, as its content tells. A name that is a link stands for the file that it leads to.
"""

import contextlib
import errno
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hwspaces.files import document, interrupted, unfinished

HEAD = 4096
"""B of a file that are read to see what it is; of netCDF, its attributes."""

MOST_NAMES = 100_000
"""Texts that are looked at for names of files."""


@dataclass(frozen=True)
class FileKind:
    """A kind of file that jaxroof writes, and by what it knows its own again."""

    words: str  # that name it in messages
    suffixes: tuple[str, ...]
    recognised: Callable[[Path], bool]


def _netcdf(path: Path) -> dict[str, object]:
    """Names of a netCDF file's attributes, and what is its source; none where it is no such file."""
    # Signatures of netCDF 4, whose files are HDF5, and of netCDF 3: the library is only loaded for these.
    if not _head(path).startswith((b"\x89HDF", b"CDF")):
        return {}
    import netCDF4

    # The library raises any of these for damaged files, which are nobody's that is known.
    errors = (OSError, RuntimeError, ValueError, AttributeError, TypeError, KeyError)
    with contextlib.suppress(*errors), netCDF4.Dataset(path) as file:
        return {name: file.getncattr(name) if name == "source" else None for name in file.ncattrs()}
    return {}


def _is_surface(path: Path) -> bool:
    return "jaxroof_surface_version" in _netcdf(path)


def _is_dataset(path: Path) -> bool:
    attributes = _netcdf(path)
    return "jaxroof_surface_version" not in attributes and (
        "jaxroof_version" in attributes or str(attributes.get("source", "")).startswith("jaxroof ")
    )


def _says(pattern: bytes) -> Callable[[Path], bool]:
    """Recognises files whose first bytes match."""
    return lambda path: re.match(pattern, _head(path), re.DOTALL) is not None


def _head(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(HEAD)
    except OSError:
        return b""


KINDS = {
    # Patterns match what the writer of each kind puts at its beginning: the program's name where the form has a place
    # for it, else the first columns or keys.
    "dataset": FileKind("a dataset", (".nc",), _is_dataset),
    "surfaces": FileKind("measured kernels", (".nc",), _is_surface),
    "png": FileKind("a picture", (".png",), _says(rb"\x89PNG\r\n\x1a\n.*tEXtSoftware\0jaxroof")),
    "svg": FileKind("a picture", (".svg",), _says(rb"<\?xml .*<dc:title>jaxroof</dc:title>")),
    "rows": FileKind("rows", (".csv",), _says(rb"rank,hardware,devices,layout,(batch|replicas),")),
    "page": FileKind("a page", (".html",), _says(rb"<!DOCTYPE html>\n<!-- jaxroof \d")),
    "answer": FileKind("an answer", (".json",), _says(rb'\{\s*"jaxroof_version": ')),
    "timeline": FileKind(
        "a timeline",
        (".json",),
        _says(rb'\{("otherData": \{"source": "jaxroof |[^\n]*"traceEvents": \[\n[^\n]*\{"name": "engine: )'),
    ),
    "efficiency": FileKind(
        "an efficiency",
        (".toml",),
        _says(rb'# [^\n]*\n\n.*\nrefit = "(jaxroof calibrate|python -m )'),
    ),
    "launch": FileKind("launch flags", (".sh", ".yaml", ".yml"), _says(rb"# jaxroof \d")),
    "problem": FileKind("a problem of Timeloop", (".yaml",), _says(rb"# Timeloop problem, jaxroof \d")),
    "trace": FileKind("an execution trace", (".et",), _says(rb".{1,2}\n\x05\d\.\d\.\d.{1,4}source.{1,4}jaxroof \d")),
    "groups": FileKind("groups of ranks", (".json",), _says(rb'\{\}|\{"1": \[\d+, \d')),
    "profile": FileKind("a profile of Vidur", (".csv",), _says(rb"[^\n]*,jaxroof_version\n")),
    "hardware": FileKind(
        "a hardware entry", (".toml",), _says(rb"# [^\n]*, measured by jaxroof bench on \d{4}-\d\d-\d\d")
    ),
}
"""What jaxroof writes, by name."""

PICTURE = ("png", "svg")
"""Kinds of pictures."""

SHARD_NAMES = re.compile(r"manifest\.jsonl|frame\.nc|shard-\d+\.nc|\.lock")
"""Files of a folder of shards."""


@dataclass(frozen=True)
class Wanted:
    """A file, or a folder of files, that somebody asks for."""

    path: str
    kinds: tuple[str, ...]  # keys of `KINDS`
    flag: str = ""  # that names it
    folder: str = ""  # "shards", or "pictures" for other files; "" for a file
    hint: str = ""  # what else could be given there, after the endings

    @property
    def words(self) -> str:
        """The words by which messages refer to it."""
        return f"{self.flag} {self.path}".strip()


def require(wanted: Iterable[Wanted], inputs: Iterable[str] = (), force: bool = False) -> None:
    """Refuse what must not be written, before anything is computed.

    Args:
      wanted: all files and folders that one command writes.
      inputs: files and folders that it reads, as `named` finds them.
      force: replace files that jaxroof did not write. Nothing makes it write over what it reads.

    Raises:
      ValueError: one line that names the file and what is wrong with it.
    """
    inputs, seen = list(inputs), list[tuple[Wanted, Path]]()
    for each in wanted:
        target = _require_folder(each, inputs) if each.folder else _require_file(each, inputs, force)
        # Of two outputs under one name the later would replace the earlier.
        for other, place in seen:
            if _same(target, place):
                raise ValueError(f"{each.words} and {other.words} are one file: give each a name of its own")
        seen.append((each, target))


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], kinds: tuple[str, ...], inputs: Iterable[str] = (), force: bool = False
) -> Iterator[str]:
    """A temporary name beside `path` that takes its place when the block ends well, and vanishes when it does not.

    Args:
      path: the file.
      kinds: keys of `KINDS`: what may be written there.
      inputs, force: as of `require`.

    Raises:
      ValueError: one line: what `require` says, or what the system says while the block writes, and what is free.
    """
    wanted = Wanted(os.fspath(path), kinds)
    target = _require_file(wanted, list(inputs), force)
    # Leftovers of processes that were killed take room that this file may need.
    unfinished.cleaned(target.parent)
    begun = unfinished.begun(target)
    try:
        try:
            yield str(begun)
        except (OSError, RuntimeError) as error:
            # An error of the caller's own work is no matter of the file and passes as it is.
            if not _of_writing(error, begun):
                raise
            raise ValueError(unfinished.refusal(Path(path), error, begun)) from None
        unfinished.adopted(begun, target)
        # Told as finished under the name that was given, which may be a link to the target.
        interrupted.forget(begun, finished=path)
    finally:
        unfinished.discarded(begun)


def saved_text(
    path: str | os.PathLike[str], kind: str, text: str, force: bool = False, inputs: Iterable[str] = ()
) -> None:
    """Write a text of a kind of `KINDS`; the file appears when it is whole. Raises as `replacing` does."""
    with replacing(path, (kind,), inputs, force) as name, open(name, "w", encoding="utf-8") as file:
        file.write(text)


def names_folder(path: str) -> bool:
    """True where a name is a folder's: it ends in a slash, is one, or has no suffix."""
    return path.endswith(("/", "\\")) or os.path.isdir(path) or not Path(path).suffix


def names_store(path: str) -> bool:
    """True where a name is that of a Zarr store: it ends in .zarr, or is a URL."""
    return "://" in path or path.rstrip("/").lower().endswith(".zarr")


def named(*values: object) -> tuple[str, ...]:
    """Files and folders that text names: values of flags, a specification, and the TOML files that these name.

    Args:
      *values: text, paths, lists and mappings of them; others name nothing.

    Returns:
      Every one that is there, once.
    """
    paths: dict[str, str] = {}
    waiting, looked = list(values), 0
    # Every text costs a few look-ups on the disk, and a specification may hold very many.
    while waiting and looked < MOST_NAMES:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple | set):
            waiting.extend(value)
        if not isinstance(value, str | os.PathLike):
            continue
        looked += 1
        for path in _spellings(str(value)):
            if not os.path.exists(path) or (real := os.path.realpath(path)) in paths:
                continue
            # Links to one file count once, under the first name.
            paths[real] = path
            if real.lower().endswith(".toml") and os.path.isfile(real):
                with contextlib.suppress(ValueError):  # who reads it says what is wrong with it
                    waiting.append(document.toml(real))
    return tuple(paths.values())


def _spellings(text: str) -> Iterator[str]:
    """Paths that a text may hold: all of it, a part of a list, a setting's value, a run or an entry of a file."""
    for part in {text, *text.split(","), text.partition("=")[2]}:
        part = part.strip().removeprefix("surface:")
        yield os.path.expanduser(part)
        if "#" in part:
            yield os.path.expanduser(part.rpartition("#")[0])
        if ".nc:" in part:
            yield os.path.expanduser(part.partition(".nc:")[0] + ".nc")


def _require_file(wanted: Wanted, inputs: list[str], force: bool) -> Path:
    """The file that will be there, its links resolved; ValueError of one line where it must not be."""
    words, path = wanted.words, wanted.path
    target = _resolved(wanted)
    if target.is_dir():
        raise ValueError(f"{words} is a folder; give the name of a file")
    # Neither a file that is read nor one in a folder that is read may be replaced, by whatever name.
    for given in inputs:
        if _same(target, Path(given)) or _inside(target, given, KINDS.values()):
            raise ValueError(
                f"{words} is {'in ' if os.path.isdir(given) else ''}{given}, which is read: give another name"
            )
    suffixes = [suffix for kind in wanted.kinds for suffix in KINDS[kind].suffixes]
    suffix = Path(path).suffix.lower()
    if suffix not in suffixes:
        allowed = f"{', '.join(suffixes[:-1])} or {suffixes[-1]}" if len(suffixes) > 1 else suffixes[0]
        raise ValueError(f"{words} must end in {allowed}{wanted.hint}")
    _require_place(words, Path(path).parent, target)
    # An empty file holds nothing that could be lost.
    if target.exists() and target.stat().st_size:
        kind = next(KINDS[kind] for kind in wanted.kinds if suffix in KINDS[kind].suffixes)
        if not force and not kind.recognised(target):
            # Another of jaxroof's own files is most likely a slip: the message says what it is.
            others = [other for other in KINDS.values() if suffix in other.suffixes and other is not kind]
            other = next((other.words for other in others if other.recognised(target)), None)
            what = f"holds {other}, not {kind.words}" if other else "is there already, and jaxroof did not write it"
            raise ValueError(f"{words} {what}: give another name, or --force (in Python force=True) to replace it")
    return target


def _require_folder(wanted: Wanted, inputs: list[str]) -> Path:
    """The folder that files will be in; ValueError of one line where they must not be."""
    words, target = wanted.words, _resolved(wanted)
    if target.exists() and not target.is_dir():
        raise ValueError(f"{words} is a file; give the name of a folder")
    # A folder of shards must take files where it is there, and else be one that can be made.
    if wanted.folder == "shards":
        _require_place(words, Path(wanted.path).parent, target / "shard" if target.is_dir() else target)
    for given in inputs:
        real = Path(os.path.realpath(given))
        if wanted.folder == "shards" and target in real.parents and real.is_file():
            raise ValueError(f"{words} has {given} in it, which is read: give another folder")
    return target


def _resolved(wanted: Wanted) -> Path:
    """Target of a name; ValueError of one line for what is neither a file nor a folder nor nothing.

    The netCDF library takes a backslash for a separator of folders on every system, and finds no file then.
    """
    if os.sep != "\\" and "\\" in wanted.path:
        raise ValueError(f"{wanted.words} has a backslash in its name: give a name without, folders parted by /")
    if any(unicodedata.category(character) == "Cc" for character in wanted.path):
        raise ValueError(f"{wanted.words!r} has a control character: give a name without")
    try:
        mode = os.stat(wanted.path).st_mode
    except OSError as error:
        # A link whose target is missing is there, and yet has no status.
        if os.path.islink(wanted.path):
            raise ValueError(f"{wanted.words} is a link that leads nowhere: give the name of a file") from None
        # Nothing of that name is the usual case.
        if error.errno not in (errno.ENOENT, errno.ENOTDIR):
            raise ValueError(f"{wanted.words} cannot be written: {error.strerror}") from None
        return Path(os.path.realpath(wanted.path))
    except ValueError as error:
        raise ValueError(f"{wanted.words!r} is not a file name: {error}") from None
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        what = "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise ValueError(f"{wanted.words} is {what}, and jaxroof writes whole files alone: give the name of a file")
    return Path(os.path.realpath(wanted.path))


def _require_place(words: str, folder: Path, target: Path) -> None:
    """ValueError of one line where no file can be made, which one that is made and taken away shows."""
    if not target.parent.is_dir():
        raise ValueError(f"{words}: there is no folder {folder}")
    try:
        unfinished.discarded(unfinished.begun(target))
    except ValueError as error:
        raise ValueError(str(error).replace(str(target), words, 1)) from None


def _same(one: Path, other: Path) -> bool:
    """True for one file or folder, by whatever names and links."""
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        # Where one of them is not there, their names are compared, links resolved.
        return os.path.realpath(one) == os.path.realpath(other)


def _inside(target: Path, folder: str, kinds: Iterable[FileKind]) -> bool:
    """True for a file that belongs to a folder which is read: a shard, or what is there and jaxroof did not write."""
    real = Path(os.path.realpath(folder))
    if real not in target.parents or not target.is_file():
        return False
    # Of a folder of shards only its own files are read; others in it may be written.
    if (real / "manifest.jsonl").is_file():
        return SHARD_NAMES.fullmatch(target.name) is not None
    return not any(kind.recognised(target) for kind in kinds)


def _of_writing(error: Exception, begun: Path) -> bool:
    """True for an error of whoever writes the file, as the system or the netCDF library has it."""
    if not isinstance(error, OSError):
        return type(error) is RuntimeError and str(error).startswith("NetCDF:")
    # Whoever reads the standard output is gone, which says nothing about the file.
    if isinstance(error, BrokenPipeError):
        return False
    # Failed writes name no file; other calls name theirs.
    return error.filename is None or os.fsdecode(error.filename) == str(begun)
