"""A page for every verb of the command line, from its parser: usage, arguments in their groups, examples."""

import argparse
import functools
import importlib
from pathlib import Path

from docs.site import pages
from sweeps.cli import outputs
from sweeps.cli.parser import Parser, _leaves
from sweeps.cli.verbs import VERBS

ABOUT = """One page per verb, generated from what ``jaxroof VERB --help`` reads. :doc:`/reference/command_line` says which
verb answers which question, and what holds for all of them."""


def write(docs: Path) -> None:
    """Write DOCS/reference/cli/: an index, and a page for every verb."""
    rows = [(f":doc:`jaxroof {verb} <{verb}>`", pages.plain(summary)) for verb, summary in VERBS.items()]
    index = [pages.title("Verbs and flags"), ABOUT, pages.table(("verb", "answer"), rows, "25 75")]
    texts = {"index": "\n\n".join([*index, pages.toctree(VERBS, ":hidden:")]) + "\n"}
    pages.write_folder(docs / "reference" / "cli", texts | {verb: page(verb) for verb in VERBS})


def page(verb: str) -> str:
    """The page of one verb."""
    parser = parser_of(verb)
    summary = VERBS[verb]
    text = f"{summary[0].upper()}{summary[1:]}."
    return "\n\n".join([pages.title(f"jaxroof {verb}"), pages.plain(text), *described(parser, 1)]) + "\n"


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb with everything that the command declares."""
    parser = Parser(prog=f"jaxroof {verb}")
    importlib.import_module(f"sweeps.cli.{verb}").arguments(parser)
    for leaf in _leaves(parser):
        outputs.page_argument(leaf)
    return parser


def described(parser: argparse.ArgumentParser, level: int) -> list[str]:
    """Usage, groups of arguments, examples, and words that may follow, each with the same."""
    parser.formatter_class = functools.partial(argparse.HelpFormatter, width=88)  # type: ignore[assignment]
    usage = parser.format_usage().removeprefix("usage: ").rstrip()
    parts = [f".. code-block:: text\n\n{pages.indented(usage)}", f".. program:: {parser.prog}"]
    below: dict[str, argparse.ArgumentParser] = {}
    for group in parser._action_groups:
        actions = [action for action in group._group_actions if action.help is not argparse.SUPPRESS]
        below |= {
            word: choice
            for action in actions
            if isinstance(action, argparse._SubParsersAction)
            for word, choice in action.choices.items()
        }
        options = [option(parser, action) for action in actions if not _standard(action)]
        if options:
            parts += [pages.title(_capital(group.title or ""), level), *options]
    if parser.epilog:
        parts += [pages.title("Examples", level), f".. code-block:: sh\n\n{pages.indented(parser.epilog)}"]
    for word, choice in below.items():
        parts += [pages.title(choice.prog, level), pages.plain(choice.description or ""), *described(choice, level + 1)]
    return [part for part in parts if part]


def option(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """One argument: how it is written, and its help."""
    formatter = parser._get_formatter()
    if action.option_strings:
        value = "" if action.nargs == 0 else f" {formatter._format_args(action, action.dest.upper())}"
        written = ", ".join(f"{flag}{value}" for flag in action.option_strings)
    else:
        written = formatter._format_args(action, action.dest.upper())
    return f".. option:: {written}\n\n{pages.indented(pages.plain(formatter._expand_help(action)))}"


def _standard(action: argparse.Action) -> bool:
    """Whether it is the help itself, or the words that have sections of their own."""
    return isinstance(action, argparse._HelpAction | argparse._SubParsersAction)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
