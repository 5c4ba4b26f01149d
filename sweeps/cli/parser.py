"""The command line in words: a verb and its flags, each given once; an error is one line."""

import argparse
import importlib
import os
import shlex
import sys
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any, NoReturn

from sweeps.answers.to_json import COMMAND
from sweeps.cli import environment, help, outputs
from sweeps.cli.verbs import VERBS


def run(words: list[str]) -> SystemExit | None:
    """Run the verb that `words` name, or print the help or the version; after a help, how argparse would end.

    Raises:
      ValueError: one line, for what is no verb, no flag of it or no value of one, and whatever the verb raises.
    """
    # A shell that completes a line asks in place of running it.
    asked = "_ARGCOMPLETE" in os.environ
    if asked:
        from sweeps.cli import completing

        words = completing.words()
    parser = Parser(prog="jaxroof", description=help.ABOUT)
    parser.brief = help.overview
    what = "versions of jaxroof, Python, JAX and its devices, NumPy and xarray"
    parser.add_argument("--version", action="store_true", help=what)
    parser.add_argument("--json", action="store_true", dest="version_json", help="with --version: as JSON")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    # Checked before argparse does, whose message would list all verbs instead of the nearest.
    if words and not words[0].startswith("-") and words[0] not in VERBS:
        raise ValueError(f"there is no verb {words[0]}{_nearest(words[0], VERBS)}")
    # Every verb is listed in the help, but only the one that is called is imported.
    for verb, summary in VERBS.items():
        description = f"{summary[0].upper()}{summary[1:]}."
        subparser = verbs.add_parser(verb, help=summary, description=description)
        if words and verb == words[0]:
            module = _declared(subparser, verb)
    if asked:
        completing.answer(parser)
    try:
        options, unknown = parser.parse_known_args(words)
    except SystemExit as helped:
        return helped
    if options.version_json and not options.version:
        raise ValueError("--json stands behind a verb and its flags, or beside --version")
    if unknown:
        raise ValueError(_unknown(unknown[0], parser.flags(options)))
    if options.version:
        from sweeps.answers import to_json, version

        found = version.record()
        (to_json.print_json if options.version_json else version.show)(found)
    elif options.verb is None:
        parser.print_help()
    else:
        # Surroundings and files are checked before the verb imports what takes long.
        environment.require_usable()
        from sweeps.cli.common import read_as

        outputs.require_outputs(options)
        read_as(options)
        _run(shlex.join(["jaxroof", *words]), module, options)
    return None


def _run(command: str, module: ModuleType, options: argparse.Namespace) -> None:
    """Run a verb: records that it prints or writes state the command, and the screen has what fits it, or the whole."""
    from sweeps.answers.answer import instead
    from sweeps.answers.brief import WIDTH
    from sweeps.answers.screen import Screen
    from sweeps.answers.short import Short

    token = COMMAND.set(command)
    try:
        if options.verbose:
            module.run(options)
            return
        with instead(short := Short()):
            module.run(options)
        screen = Screen(WIDTH)
        short.end(screen, screen.width, options.notes)
    finally:
        COMMAND.reset(token)


def parser_of(verb: str) -> "Parser":
    """The parser of a verb alone, with everything that the command declares."""
    parser = Parser(prog=f"jaxroof {verb}")
    _declared(parser, verb)
    return parser


def _declared(parser: argparse.ArgumentParser, verb: str) -> ModuleType:
    """Declare the arguments of a verb, and give it its help; its module."""
    module = importlib.import_module(f"sweeps.cli.{verb}")
    module.arguments(parser)
    # The forms of an answer are those of every verb, and are declared at the parsers that take flags.
    for leaf in _leaves(parser):
        outputs.form_arguments(leaf)
    _brief(parser, verb)
    return module


def _leaves(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers below a verb's that take flags: its own, or those of every word that may follow."""
    # A verb may have words of its own, each with a parser.
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below = [leaf for choice in action.choices.values() for leaf in _leaves(choice)]
            return below if action.required else [parser, *below]
    return [parser]


def _brief(parser: Any, words: str) -> None:
    """Give a command, and every word that may follow it, the help that fits a screen."""
    parser.brief = lambda: help.brief(parser, words)
    parser.usage = help.usage(parser, words)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                _brief(below, f"{words} {word}")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, and that takes flags in full, once unless declared to append."""

    brief: Callable[[], str] | None = None
    """What `--help` prints in place of all flags, which `--help-all` prints."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.add_argument("--help-all", action=_HelpAll, nargs=0, help="all flags, each with its whole help")
        # Abbreviations would make a later flag of the same beginning ambiguous.
        self.allow_abbrev = False
        self.color = False  # later versions of argparse write control characters
        # Both registrations: argparse names the default action None as well as "store".
        self.register("action", None, _Once)
        self.register("action", "store", _Once)

    def error(self, message: str) -> NoReturn:
        """Raise what argparse would print; `sweeps.cli.main` prints it in one line."""
        raise ValueError(message)

    def print_help(self, file: Any = None) -> None:
        """Print what fits a screen."""
        self._print_message(self.format_help() if self.brief is None else self.brief(), file or sys.stdout)

    def flags(self, options: argparse.Namespace | None = None) -> list[str]:
        """Every flag that it knows, or that the parser of the last word that `options` have does."""
        # The flags of the innermost word that was parsed are those that can be meant.
        for action in self._actions:
            word = getattr(options, action.dest, None)
            if isinstance(action, argparse._SubParsersAction) and word is not None:
                return action.choices[word].flags(options)
        return [flag for action in self._actions for flag in action.option_strings]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; the words are kept for messages."""
        self._words = args
        return super().parse_known_args(args, namespace)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of an argument's choices: behind an unknown flag it is the flag's value."""
        if isinstance(action, argparse._SubParsersAction) and value not in action.choices:
            # The word before may be an unknown flag whose value is taken for a verb or an action.
            before = self._words[self._words.index(value) - 1]
            if before.startswith("-") and before not in self.flags():
                raise ValueError(_unknown(before, self.flags()))
        super()._check_value(action, value)


class _HelpAll(argparse.Action):
    """Prints all flags of a command, and ends it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        print(parser.format_help(), end="")
        parser.exit()


class _Once(argparse.Action):
    """Stores the value of a flag; a second one would silently replace it, so it is refused."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        given = namespace.__dict__.setdefault("_given", set())
        if option_string is not None and self.dest in given:
            raise argparse.ArgumentError(self, "given twice")
        given.add(self.dest)
        setattr(namespace, self.dest, values)


class WordFirst(argparse._SubParsersAction):  # type: ignore[type-arg]  # it takes none while a program runs
    """A word in a command that may be left out; its flags stand behind it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Refuse flags before the word."""
        # Flags before the word have been parsed for the other kind of work.
        given = sorted(getattr(namespace, "_given", ()))
        if given:
            from sweeps.cli.leaf_flags import flag

            raise argparse.ArgumentError(None, f"{values[0]} stands before its flags: {flag(given[0])} is before it")
        super().__call__(parser, namespace, values, option_string)


def _unknown(word: str, known: list[str]) -> str:
    return f"{word} is not an argument here{_nearest(word, known) if word.startswith('-') else ''}"


def _nearest(word: str, known: Collection[str]) -> str:
    import difflib

    close = difflib.get_close_matches(word, list(known), n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(close)}?" if close else f"; known: {', '.join(known)}"
