"""Flags that name files to write: their declaration, and refusals before a verb runs.

A verb declares every such flag here and in no other way. All other flags are taken for what is read: a file that one
of them names, or that a specification among them names, is not written over.
"""

import argparse
import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

FORCE_HELP = "replace files of these names that jaxroof did not write"


@dataclasses.dataclass(frozen=True)
class OutputFile:
    """A flag that names a file or a folder."""

    dest: str  # its name among the parsed flags
    flag: str  # as it is given
    kinds: tuple[str, ...]  # keys of `hwspaces.files.output.KINDS`
    folder: str  # "shards": a folder where the name is one's; "pictures": always one, of any files; "": a file
    default: Callable[[argparse.Namespace], str | None]  # the file where the flag is not given


def output_argument(
    parser: Any,
    *flags: str,
    kinds: tuple[str, ...],
    folder: str = "",
    default: Callable[[argparse.Namespace], str | None] = lambda options: None,
    **words: Any,
) -> None:
    """Declare a flag that names what is written, and `--force` beside the first one.

    Args:
      parser: a parser or a group of one.
      *flags: its spellings.
      kinds, folder, default: as of `OutputFile`.
      **words: as `add_argument` takes them.
    """
    # The first output of a parser brings the flag --force along, which holds for all of them.
    declared = declared_outputs(parser)
    action = parser.add_argument(*flags, **words)
    parser.set_defaults(_outputs=(*declared, OutputFile(action.dest, flags[0], kinds, folder, default)))
    if not declared:
        parser.add_argument("--force", action="store_true", help=FORCE_HELP)


def dataset_argument(parser: Any, help: str, metavar: str = "OUT.nc", **words: Any) -> None:
    """Declare `-o`, a netCDF file of labelled numbers."""
    output_argument(parser, "-o", "--output", kinds=("dataset",), metavar=metavar, help=help, **words)


def picture_argument(parser: Any, help: str, *flags: str, metavar: str = "PICTURE", **words: Any) -> None:
    """Declare `--plot`, or the flags given, a .png or .svg."""
    output_argument(parser, *(flags or ("--plot",)), kinds=("png", "svg"), metavar=metavar, help=help, **words)


def pictures_argument(parser: Any, what: str) -> None:
    """Declare `--plots DIR`, a folder of pictures; `what` says in the help which ones."""
    output_argument(parser, "--plots", kinds=("png",), folder="pictures", metavar="DIR", help=what)


def form_arguments(parser: Any) -> None:
    """Declare what every verb takes: how much it says."""
    parser.add_argument("-v", "--verbose", action="store_true", help="the whole answer, not only what fits a screen")
    parser.add_argument("--notes", action="store_true", help="below the answer its assumptions, each in words")


def declared_outputs(parser: Any) -> tuple[OutputFile, ...]:
    """The flags of a parser that name what is written."""
    return parser.get_default("_outputs") or ()


def files(options: argparse.Namespace) -> list[str]:
    """Files that a verb has been told to write, in the order of their flags."""
    # In the order of declaration; flags without a value are not written.
    named = (getattr(options, each.dest) for each in getattr(options, "_outputs", ()))
    return [name for name in named if name is not None]


def print_files(options: argparse.Namespace) -> None:
    """Print the files that a verb has written, each on a line."""
    from sweeps.answers.tables import console, print_lines

    print_lines(console(), "file", files(options))


def write(options: argparse.Namespace, dest: str, make: Callable[[], Any], inputs: Iterable[str] = ()) -> None:
    """Write what `make` returns into the file that the flag `dest` names, if any: as the name ends, a dataset, a record
    or a picture.

    Args:
      inputs: files that the dataset is made from.
    """
    path = getattr(options, dest)
    # Data are computed by `make` only where a file is wanted.
    if path is None:
        return
    # The ending decides on the format.
    if path.lower().endswith(".nc"):
        from sweeps.answers.to_json import COMMAND
        from sweeps.data.store import saved as saved_dataset

        made, command = make(), COMMAND.get()
        saved_dataset(path, made if command is None else made.assign_attrs(command=command), options.force, inputs)
    elif path.lower().endswith(".json"):
        from hwspaces.files.output import saved_text
        from sweeps.answers.to_json import json_text

        saved_text(path, "answer", json_text(make()) + "\n", options.force)
    else:
        from sweeps.show.style import saved as saved_picture

        saved_picture(make(), path, options.force)


def require_outputs(options: argparse.Namespace) -> None:
    """Refuse, before anything is computed, files that a verb must not or cannot write.

    Args:
      options: parsed flags; a name that the verb chooses where none is given is put among them.

    Raises:
      ValueError: one line that names the flag, the file and what is allowed.
    """
    declared: tuple[Any, ...] = tuple(getattr(options, "_outputs", ()))
    # Default names first, so that they are checked like given ones.
    for each in declared:
        if getattr(options, each.dest) is None:
            setattr(options, each.dest, each.default(options))
    given = [each for each in declared if getattr(options, each.dest) is not None]
    if not given:
        if getattr(options, "force", False):
            raise ValueError("--force is for files that are written, and none is: give " + declared[0].flag)
        return
    from hwspaces.files import output

    wanted = []
    for each in given:
        path = str(getattr(options, each.dest))
        # A Zarr store is not one file: whoever writes it looks at what is there.
        if each.folder == "shards" and output.names_store(path):
            if options.force:
                raise ValueError(
                    f"--force is for files; {path} is a Zarr store, and none of another sweep is written to"
                )
            continue
        # Some flags take a folder only where the name ends like one.
        folder = each.folder if each.folder != "shards" or output.names_folder(path) else ""
        hint = ", in / for a folder, or in .zarr" if each.folder == "shards" else ""
        wanted.append(output.Wanted(path, each.kinds, each.flag, folder, hint))
    # A folder of shards never replaces files of others, and --force does not change that.
    if options.force and all(each.folder == "shards" for each in wanted):
        raise ValueError("--force is for files; no folder with files of others is written to")
    # All files are checked together: two flags must not name the same one, nor an input.
    output.require(wanted, read_files(options), options.force)
    # A missing plotting library is reported now rather than after a long computation.
    if any((each.folder and "png" in each.kinds) or each.path.lower().endswith((".png", ".svg")) for each in wanted):
        from sweeps.show import style

        style.matplotlib()


def read_files(options: argparse.Namespace) -> tuple[str, ...]:
    """Files and folders that all flags but those of outputs name."""
    from hwspaces.files import output

    # The outputs themselves, the verb and private entries name nothing that is read.
    written = {"verb", *(each.dest for each in getattr(options, "_outputs", ()))}
    values = [value for name, value in vars(options).items() if not name.startswith("_") and name not in written]
    return output.named(*values)
