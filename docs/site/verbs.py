"""A page for every verb of the command line, from its parser: usage, arguments in their groups, examples."""

import argparse
import importlib
import shlex
from pathlib import Path

from docs.site import pages
from sweeps.cli.examples import HELP, Help
from sweeps.cli.outputs import form_arguments
from sweeps.cli.parser import Parser, _leaves
from sweeps.cli.verbs import GROUPS, VERBS

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
    parser = parser_of(verb)
    text = pages.plain(f"{pages.capital(VERBS[verb])}.")
    return "\n\n".join([pages.title(f"jaxroof {verb}"), text, *described(parser, 1)]) + "\n"


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb with everything that the command declares."""
    parser = Parser(prog=f"jaxroof {verb}")
    importlib.import_module(f"sweeps.cli.{verb}").arguments(parser)
    for leaf in _leaves(parser):
        form_arguments(leaf)
    return parser


def described(parser: argparse.ArgumentParser, level: int) -> list[str]:
    """Usage, examples, arguments in their groups, and words that may follow, each with the same."""
    parts = [f".. code-block:: text\n\n   {usage(parser)}", f".. program:: {parser.prog}"]
    examples = HELP.get(parser.prog.removeprefix("jaxroof "), Help()).examples
    commands = [command(f"{parser.prog} {example}") for example in examples]
    if commands:
        parts += [pages.title("Examples", level), ".. code-block:: sh\n\n" + pages.indented("\n".join(commands))]
    below: dict[str, argparse.ArgumentParser] = {}
    for group in parser._action_groups:
        for action in group._group_actions:
            if isinstance(action, argparse._SubParsersAction):
                below |= action.choices
        options = [option(parser, action) for action in group._group_actions if _shown(action)]
        if options:
            parts += [pages.title(pages.capital(group.title or ""), level), *options]
    for choice in below.values():
        about = pages.plain(choice.description or "")
        parts += [pages.title(choice.prog, level), about, *described(choice, level + 1)]
    return [part for part in parts if part]


def usage(parser: argparse.ArgumentParser) -> str:
    """The command with what it takes without a flag, and the flags that it needs."""
    formatter = parser._get_formatter()
    found = [parser.prog]
    for action in parser._actions:
        value = formatter._format_args(action, action.dest.upper())
        if not action.option_strings:
            found.append(value)
        elif action.required:
            found.append(f"{action.option_strings[0]} {value}")
    return " ".join([*found, "[flags]"]).replace(" ... [flags]", " ...")


def command(text: str, width: int = 88) -> str:
    """A command in lines that a shell takes."""
    lines = [""]
    for word in shlex.split(text, posix=False):
        if len(lines[-1]) + len(word) > width and word.startswith("-"):
            lines[-1] += " \\"
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def option(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    """One argument: how it is written, and its help."""
    formatter = parser._get_formatter()
    if action.option_strings:
        value = "" if action.nargs == 0 else f" {formatter._format_args(action, action.dest.upper())}"
        written = ", ".join(f"{flag}{value}" for flag in action.option_strings)
    else:
        written = formatter._format_args(action, action.dest.upper())
    return f".. option:: {written}\n\n{pages.indented(pages.plain(formatter._expand_help(action)))}"


def _shown(action: argparse.Action) -> bool:
    """Whether it is neither hidden nor a help, nor the words that have sections of their own."""
    words = isinstance(action, argparse._SubParsersAction)
    return not words and action.help != argparse.SUPPRESS and action.dest not in ("help", "help_all")
