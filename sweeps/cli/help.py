"""Help that fits a screen: verbs in groups of tasks; of one verb its usage, examples and main flags."""

import argparse
import shlex
import shutil
import textwrap

from sweeps.cli.examples import FORM, HELP, Help
from sweeps.cli.verbs import GROUPS

WIDTH = 100
"""Columns at most."""

ABOUT = "Time, memory and cost of LLM inference and training on any hardware."

FIRST = ("request", "compare")
"""Verbs whose first example the list of verbs shows."""

WRITTEN = ("output", "plot", "plots", "chrome_trace", "hardware_out")
"""Flags of files that a command writes beside a page, by their names among the parsed flags."""


def overview() -> str:
    """The verbs in groups of tasks, and two examples: what `jaxroof --help` prints."""
    width = _width()
    lines = [f"usage: jaxroof VERB [flags]   {ABOUT}", ""]
    for group, verbs in GROUPS.items():
        if not group:
            continue
        # The group's name stands once, beside its first verb.
        titles = [group, *[""] * (len(verbs) - 1)]
        lines += [f"{title:9}{verb:14}{summary}" for title, (verb, summary) in zip(titles, verbs.items(), strict=True)]
    lines.append("")
    for verb in FIRST:
        lines += command(f"jaxroof {verb} {HELP[verb].examples[0]}", width)
    lines += ["jaxroof VERB --help: its flags and examples; also --version, and completion bash, zsh or fish"]
    return "\n".join(_shortened(line, width) for line in lines) + "\n"


def brief(parser: argparse.ArgumentParser, words: str) -> str:
    """Usage, summary, examples and main flags of a command.

    Args:
      parser: its parser.
      words: the command behind `jaxroof`: a key of `HELP`, or none of them, which shows all flags.
    """
    shown, width = HELP.get(words, Help()), _width()
    lines = [f"usage: {usage(parser, words)}", "", *textwrap.wrap(parser.description or "", width)]
    if shown.examples:
        lines += ["", "examples"]
        for example in shown.examples:
            lines += ["  " + line for line in command(f"jaxroof {words} {example}".rstrip(), width - 2)]
    groups = _groups(parser, shown)
    lines.append("")
    for title, actions in groups.items():
        listed = [_row(*row, width) for action in actions for row in rows(parser, action)]
        lines += [title, *listed] if title and listed else listed
    known = _known(parser)
    answer = [known[flag] for flag in FORM.split() if flag in known]
    # Forms that every command has are one line; files that it writes have a line each.
    files = [action for action in answer if action.dest in WRITTEN]
    lines += ["answer", *(_row(*row, width) for action in files for row in rows(parser, action))]
    others = ", ".join(_spelled(parser, action, action.option_strings[0]) for action in answer if action not in files)
    lines += [f"  also {others}"] if others else []
    told = [*answer, *(action for actions in groups.values() for action in actions)]
    rest = [action for action in shown_arguments(parser) if action not in told]
    return "\n".join([*lines, *(["", f"{len(rest)} more: jaxroof {words} --help-all"] if rest else [])]) + "\n"


def _groups(parser: argparse.ArgumentParser, shown: Help) -> dict[str, list[argparse.Action]]:
    """Arguments by the title of their group: first words and values without a flag, then what is declared."""
    known, found = _known(parser), shown_arguments(parser)
    groups = {"": [action for action in found if not action.option_strings]}
    if shown.groups:
        return groups | {title: [known[flag] for flag in flags] for title, flags in shown.groups.items()}
    form = [known.get(flag) for flag in ("--force", *FORM.split())]
    return groups | {"flags": [action for action in found if action.option_strings and action not in form]}


def _known(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return {flag: action for action in parser._actions for flag in action.option_strings}


def shown_arguments(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Arguments that a help may show: all but the help itself, and what is not shown anywhere."""
    hidden = ("help", "help_all")
    return [action for action in parser._actions if action.dest not in hidden and action.help != argparse.SUPPRESS]


def usage(parser: argparse.ArgumentParser, words: str) -> str:
    """One line: the command, what it takes without a flag, and the flags that a usual question gives."""
    formatter = parser._get_formatter()
    known = _known(parser)
    parts = ["jaxroof", *words.split()]
    for action in parser._actions:
        if not action.option_strings:
            parts.append(formatter._format_args(action, formatter._get_default_metavar_for_positional(action)))
    needed = [flag for flag, action in known.items() if action.required]
    parts += [_spelled(parser, known[flag], flag) for flag in (*HELP.get(words, Help()).needs, *needed[:1])]
    return " ".join([*parts, "[flags]"]).replace(" ... [flags]", " ...")


def rows(parser: argparse.ArgumentParser, action: argparse.Action) -> list[tuple[str, str]]:
    """An argument as it is spelled, with its help; of words that a command goes on with a row each."""
    formatter = parser._get_formatter()
    if isinstance(action, argparse._SubParsersAction):
        return [(choice.dest, choice.help or "") for choice in action._choices_actions]
    if not action.option_strings:
        metavar = formatter._get_default_metavar_for_positional(action)
        spelled = formatter._metavar_formatter(action, metavar)(1)[0]
    else:
        spelled = _spelled(parser, action, ", ".join(sorted(action.option_strings, key=len)))
    return [(spelled, formatter._expand_help(action) if action.help else "")]


def _spelled(parser: argparse.ArgumentParser, action: argparse.Action, flags: str) -> str:
    """Flags with the placeholder of their value."""
    if action.nargs == 0:
        return flags
    formatter = parser._get_formatter()
    return f"{flags} {formatter._format_args(action, formatter._get_default_metavar_for_optional(action))}"


def _row(spelled: str, about: str, width: int) -> str:
    """An argument on one line; of its help as many clauses as it has room for."""
    begin = f"  {spelled:24}  "
    return begin + _shortened(about, width - len(begin)) if about else begin.rstrip()


def _shortened(text: str, width: int) -> str:
    """A text of at most `width` columns, ended behind a clause where it is longer."""
    if len(text) <= width:
        return text
    room = text[: width - 3]
    head = max((room.rpartition(mark)[0] for mark in ("; ", ": ", ", ", " (")), key=len) or room.rpartition(" ")[0]
    # Half of a remark in brackets says nothing.
    head = head if head.count("(") == head.count(")") else head.rpartition(" (")[0]
    return f"{head.removesuffix(' ...').rstrip(',')} ..."


def command(text: str, width: int) -> list[str]:
    """A command as lines that a shell takes: it is broken before flags."""
    lines, line = [], ""
    for word in _words(text):
        if line and len(line) + len(word) + 3 > width:
            lines.append(f"{line} \\")
            line = f"    {word}"
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


def _words(text: str) -> list[str]:
    """Words of a command, with each flag beside its value."""
    found: list[str] = []
    for word in shlex.split(text, posix=False):
        if found and found[-1].startswith("-") and " " not in found[-1] and not word.startswith("-"):
            found[-1] += f" {word}"
        else:
            found.append(word)
    return found


def _width() -> int:
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns)
