"""Rules of the engines' schedulers: the same questions for all, each field in one of them, and numbers that agree."""

import re

import pytest

import hwspaces
from hwspaces.engines.engine import FILES, entry
from hwspaces.engines.rules import ruled
from hwspaces.files import document
from tests.reference import FOLDER

NAMES = hwspaces.engine_names()

SAID = ("token_budget", "max_sequences", "block_size")
"""Fields whose number is the engine's own default, so that its rule says it."""


def values(engine: str, version: str) -> dict[str, object]:
    return dict(entry(engine, document.toml(FILES / f"{engine}.toml"), version).policy)


@pytest.mark.parametrize("engine", NAMES)
def test_every_engine_answers_the_same_questions(engine):
    questions = [rule.rule for rule in hwspaces.engine(engine).rules]
    assert questions == [rule.rule for rule in hwspaces.engine(NAMES[0]).rules]
    assert len(set(questions)) == len(questions) == 14


@pytest.mark.parametrize("engine", NAMES)
def test_every_field_that_an_engine_sets_is_in_one_rule(engine):
    rules = hwspaces.engine(engine).rules
    named = [name for rule in rules for name in rule.fields]
    assert len(named) == len(set(named)) and ruled(rules) == set(named)
    for version in ("0", "99"):  # before all releases and after them
        assert set(values(engine, version)) <= set(named)


@pytest.mark.parametrize("engine", NAMES)
def test_defaults_of_the_policy_are_those_that_the_rules_say(engine):
    policy = hwspaces.engine(engine).policy
    for rule in hwspaces.engine(engine).rules:
        for name in set(rule.fields) & set(SAID):
            assert f"{policy[name]:,.0f}" in rule.engine, (rule.rule, name)


@pytest.mark.parametrize("engine", NAMES)
def test_every_rule_names_files_and_a_version(engine):
    for rule in hwspaces.engine(engine).rules:
        assert re.search(r"\.(py|html)\b", rule.source), rule.source
        assert re.search(r"v\d+\.\d+|commit [0-9a-f]{7}|/\d+\.\d+\.\d", rule.source), rule.source


def test_pages_show_values_by_release():
    vllm, trtllm = (
        (FOLDER / f"reference/engines/{name}.md").read_text(encoding="utf-8") for name in ("vllm", "trtllm")
    )
    assert "`hidden_host` 1 (0 before 0.14), `ahead_steps` 0" in vllm
    assert "| `deployment.memory_utilization` | 0.92 (0.9 before 0.19) |" in vllm
    assert "| `deployment.logit_bytes` | none (11.3 B from 0.29 on) |" in vllm
    assert "`order` mixed" in trtllm and "`max_waiting` no limit" in trtllm and "`reserve` 1" in trtllm
