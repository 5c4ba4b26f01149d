"""A page for every verb of the command line, from its parser: usage, arguments in their groups, examples."""

import argparse
from pathlib import Path

from docs.site import pages
from sweeps.cli import help
from sweeps.cli.examples import HELP, Help
from sweeps.cli.parser import parser_of
from sweeps.cli.verbs import GROUPS, VERBS

WIDTH = 88
"""Columns of an example."""

ABOUT = """One page per verb, generated from what ``jaxroof VERB --help`` reads. :doc:`/reference/command_line` says
which verb answers which question, and what holds for all of them."""


def write(docs: Path) -> None:
    """Write DOCS/reference/cli/: an index by groups of tasks, and a page for every verb."""
    index = [pages.title("Verbs and flags"), ABOUT]
    for group, members in GROUPS.items():
        rows = [(f":doc:`jaxroof {verb} <{verb}>`", pages.plain(summary)) for verb, summary in members.items()]
        index += [pages.title(pages.capital(group), 1)] * bool(group)
        index.append(pages.table(("verb", "answer"), rows, "25 75"))
    texts = {"index": "\n\n".join([*index, pages.toctree(VERBS, ":hidden:")]) + "\n"}
    pages.write_folder(docs / "reference" / "cli", texts | {verb: page(verb) for verb in VERBS})


def page(verb: str) -> str:
    """The page of one verb."""
    text = pages.plain(f"{pages.capital(VERBS[verb])}.")
    return "\n\n".join([pages.title(f"jaxroof {verb}"), text, *described(parser_of(verb), 1)]) + "\n"


def described(parser: argparse.ArgumentParser, level: int) -> list[str]:
    """Usage, examples, arguments in their groups, and words that may follow, each with the same."""
    words = parser.prog.removeprefix("jaxroof ")
    parts = [f".. code-block:: text\n\n   {help.usage(parser, words)}", f".. program:: {parser.prog}"]
    commands = [f"{parser.prog} {example}" for example in HELP.get(words, Help()).examples]
    lines = [line for command in commands for line in help.command(command, WIDTH)]
    if lines:
        parts += [pages.title("Examples", level), ".. code-block:: sh\n\n" + pages.indented("\n".join(lines))]
    shown = help.shown_arguments(parser)
    below = [one for one in shown if isinstance(one, argparse._SubParsersAction)]
    for group in parser._action_groups:
        options = [option(parser, one) for one in shown if one in group._group_actions and one not in below]
        if options:
            parts += [pages.title(pages.capital(group.title or ""), level), *options]
    for choice in (choice for action in below for choice in action.choices.values()):
        about = pages.plain(choice.description or "")
        parts += [pages.title(choice.prog, level), about, *described(choice, level + 1)]
    return [part for part in parts if part]


def option(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """One argument: how it is written, and its help."""
    ((written, about),) = help.rows(parser, action)
    return f".. option:: {written}\n\n{pages.indented(pages.plain(about))}"
