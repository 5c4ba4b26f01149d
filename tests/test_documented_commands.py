"""Verbs and flags of every command that the documentation prints exist."""

import argparse
import importlib
import pathlib
import re

import pytest

from sweeps.cli.verbs import VERBS

ROOT = pathlib.Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"\bjaxroof ([a-z]+)((?: [^\n`|#]*)?)")
FLAG = re.compile(r"(?<!\S)(--[a-z][\w-]*|-o)(?![\w-])")


def flags(parser: argparse.ArgumentParser) -> set[str]:
    """Flags of a parser and of the kinds below it."""
    found = set()
    for action in parser._actions:
        found |= set(action.option_strings)
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found |= flags(below)
    return found


@pytest.fixture(scope="module")
def known() -> dict[str, set[str]]:
    """Flags of every verb."""
    found = {}
    for verb in VERBS:
        parser = argparse.ArgumentParser()
        importlib.import_module(f"sweeps.cli.{verb}").arguments(parser)
        found[verb] = flags(parser)
    return found


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_verbs_and_flags_exist(page, known):
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for block in re.findall(r"```.*?```|^    .*?$|`[^`\n]+`", text, re.M | re.S):
        for verb, rest in COMMAND.findall(block):
            assert verb in known, f"jaxroof {verb}"
            assert set(FLAG.findall(rest)) <= known[verb], f"jaxroof {verb}{rest}"
