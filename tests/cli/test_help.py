"""Help of the command and of every verb: short, in groups, with examples that work."""

import argparse
import re
import shlex

import pytest

from sweeps.cli import help, main
from sweeps.cli.examples import FORM, HELP
from sweeps.cli.parser import parser_of
from sweeps.cli.verbs import GROUPS, VERBS

LINES, COLUMNS = 39, 100

QUICK = ("request", "step", "train", "collective", "colocate", "trace", "space", "hardware", "models", "validate area")
"""Commands whose examples are run whole, but for those that read or write a file."""


def said(capsys, *words):
    """What a command prints; it ends as argparse's help does, or returns 0."""
    try:
        assert main(list(words)) == 0
    except SystemExit as end:
        assert not end.code
    return capsys.readouterr().out


def commands():
    """Words of every command with its parser: verbs, and the words that may follow them."""
    for verb in VERBS:
        below = [(verb, parser_of(verb))]
        for words, parser in below:
            yield words, parser
            for action in parser._actions:
                if isinstance(action, argparse._SubParsersAction):
                    below += [(f"{words} {word}", choice) for word, choice in action.choices.items()]


COMMANDS = dict(commands())
EXAMPLES = [(words, example) for words, help in HELP.items() for example in help.examples]
FILE = re.compile(r"-o |--plot|\.csv|\.toml|\.json")
ALONE = [f"{words} {example}" for words, example in EXAMPLES if words in QUICK and not FILE.search(example)]


def fits(text):
    lines = text.splitlines()
    return len(lines) <= LINES and max(map(len, lines)) <= COLUMNS


def test_the_list_of_verbs_fits_a_screen_and_has_all_of_them(capsys):
    text = said(capsys, "--help")
    assert fits(text)
    listed = re.findall(r"^(?:\w+)? +([a-z]+)  ", text, re.M)
    assert listed == [verb for group, verbs in GROUPS.items() for verb in verbs if group]
    assert text.count("\njaxroof ") == 3 and said(capsys) == text


@pytest.mark.parametrize("words", COMMANDS)
def test_help_of_a_command_fits_a_screen(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = said(capsys, *words.split(), "--help")
    assert fits(text), text
    usage, examples = text.splitlines()[0], text.count(f"\n  jaxroof {words}")
    assert usage.startswith(f"usage: jaxroof {words}")
    assert examples >= (1 if words == "surface show" else 2)
    # Flags that are not shown are counted, and shown by --help-all.
    whole = said(capsys, *words.split(), "--help-all")
    actions = [action for action in COMMANDS[words]._actions if action.help != argparse.SUPPRESS]
    assert all(flag in whole for action in actions for flag in action.option_strings)
    assert ("--help-all" in text) == ("more:" in text)


@pytest.mark.parametrize("words", HELP)
def test_main_flags_are_flags_of_their_command(words):
    known = COMMANDS[words]._option_string_actions
    declared = [flag for flags in HELP[words].groups.values() for flag in flags]
    assert set(declared) | set(HELP[words].needs) <= set(known)
    assert len(declared) == len(set(declared)) and not set(declared) & set(FORM.split())


def test_every_verb_and_every_word_behind_one_has_help():
    assert set(HELP) == set(COMMANDS)


@pytest.mark.parametrize(("words", "example"), EXAMPLES)
def test_examples_are_read(words, example):
    verb, *rest = shlex.split(f"{words} {example}")
    options, unknown = parser_of(verb).parse_known_args(rest)
    assert not unknown and options


@pytest.mark.parametrize("command", ALONE)
def test_quick_examples_answer(command, capsys):
    assert main(shlex.split(command)) == 0 and capsys.readouterr().out


def test_a_narrow_terminal_gets_narrow_lines(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    _, *lines = said(capsys, "compare", "--help").splitlines()
    assert max(map(len, lines)) <= 72


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("tokens per request; those of images included", 40, "tokens per request ..."),
        ("of the KV cache: bf16, fp16, fp8, int8 or fp4", 40, "of the KV cache: bf16, fp16, fp8 ..."),
        ("devices of one server (default: 8 of boards, 4 of GB200)", 44, "devices of one server ..."),
        ("short", 40, "short"),
    ],
)
def test_texts_end_behind_a_clause(text, width, shown):
    assert help._shortened(text, width) == shown and len(shown) <= width
