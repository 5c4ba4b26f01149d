"""Patterns of config files: as Python's `re` and `fnmatch` read them, without their backtracking."""

import fnmatch
import random
import re
import time

import pytest

from workloads.expressions import MOST_WORK, Expressions, wildcard
from workloads.models.catalogue import catalogue
from workloads.precisions.storage import patterns

PUBLISHED = [
    r".*self_attn.*", r".*shared_experts.*", r".*mlp\.(gate|up|gate_up|down)_proj.*", r".*lm_head.*", r".*lm_head",
    r".*vision_tower.*", r".*mm_projector.*", r"visual.*", r"model.visual.*", r".*mlp.gate$", r".*linear_attn.*",
    r".*router", r"vision_model.*", r"multi_modal_projector.*", r".*block_sparse_moe\.gate",
    r"model\.layers\.\d+\.self_attn\.(q|k|v|o)_proj$", r"^(?!.*experts).*$", r".*\.mlp\.experts\.\d+\..*",
    r".*(?:eh|fc)_proj",
]  # fmt: skip
PATHS = [
    "model.layers.0.self_attn.q_proj", "model.layers.12.mlp.gate", "model.layers.3.mlp.gate_proj", "lm_head", "",
    "model.layers.61.mlp.experts.7.down_proj", "visual.blocks.0.attn", "model.layers.1.mlp.shared_experts.up_proj",
]  # fmt: skip
ATOMS = [*"ab._0-", r"\.", r"\d", r"\w", r"\W", r"\D", r"\s", ".", "[ab]", "[^a]", "[a-c0]", "[]a]", "[^]]", r"[\d_]"]
ATOMS += ["[a-]", "[-a]", "^", "$", "()", "(?:)", "{", "}", "a{", "a{,", "{}"]
REPEATS = ["", "", "", "*", "+", "?", "{2}", "{0,2}", "{1,}", "*?", "+?", "??", "{,2}", "{0}", "{2}?"]


def expression(rng: random.Random, depth: int) -> str:
    kind = rng.random()
    if depth <= 0 or kind < 0.5:
        return rng.choice(ATOMS) + rng.choice(REPEATS)
    first, second = expression(rng, depth - 1), expression(rng, depth - 1)
    if kind < 0.65:
        return first + second
    if kind < 0.8:
        return rng.choice(["(", "(?:"]) + first + ")" + rng.choice(REPEATS)
    return f"(?:{first}|{second})" + rng.choice(REPEATS) if kind < 0.95 else f"{first}|{second}"


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
def test_random_expressions_match_what_python_matches():
    rng, compared = random.Random(5), 0
    for _ in range(3_000):
        guard = expression(rng, 1)
        text = rng.choice(["", "", "", "^", f"(?!{guard})", f"^(?={guard})"]) + expression(rng, 3)
        try:
            expected = re.compile(text)
        except re.error:
            with pytest.raises(ValueError, match="is not a pattern that is read"):
                Expressions([text])
            continue
        try:
            own = Expressions([text])
        except ValueError as error:
            assert "look-ahead" in str(error) or "possessive" in str(error), text
            continue
        for _ in range(6):
            path = "".join(rng.choice("ab._0- 1{},c]") for _ in range(rng.randrange(8)))
            assert own.match(path) == bool(expected.match(path)), (text, path)
            compared += 1
    assert compared > 10_000


def test_random_wildcards_match_what_fnmatch_matches():
    rng = random.Random(3)
    parts = ["a", "b", ".", "*", "?", "[ab]", "[!a]", "[", "]", "!", "-", "[a-b]", "\\", "[]a]", "[!]]"]
    for _ in range(3_000):
        text = "".join(rng.choice(parts) for _ in range(rng.randrange(7)))
        try:
            own = Expressions([text], wildcard)
        except ValueError as error:
            assert "a bad range of characters" in str(error)  # which fnmatch takes for nothing
            continue
        for _ in range(4):
            path = "".join(rng.choice("ab.-[]!\\") for _ in range(rng.randrange(6)))
            assert own.match(path) == fnmatch.fnmatchcase(path, text), (text, path)


@pytest.mark.parametrize("text", PUBLISHED)
def test_published_expressions(text):
    assert [Expressions([text]).match(path) for path in PATHS] == [bool(re.match(text, path)) for path in PATHS]


def test_leading_zeros_of_a_bound_count_nothing():
    own = Expressions(["a{0000000002,00000000003}$"])
    assert [own.match("a" * n) for n in range(1, 5)] == [False, True, True, False]


def test_expressions_of_the_catalogue_are_read():
    configs = [part for model in catalogue().values() for part in (model.config, model.config.get("text_config", {}))]
    tables = [config.get("quantization_config", {}) for config in configs]
    names = {name for table in tables for name in table.get("ignore", ()) if name.startswith("re:")}
    assert len(names) >= 5
    for name in names:
        own = patterns([name])
        for path in PATHS:
            assert own.match(path) == any(re.match(name[3:], prefix + path) for prefix in ("model.", "", "backbone."))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (r"(a)\1", "a back-reference"),
        ("(?P<x>a)(?P=x)", "a back-reference"),
        ("(?<=a)b", "a look-behind"),
        ("(?i)a", "a flag"),
        ("a(?!b)", "a look-ahead inside"),
        ("(?=a)b|c", "a look-ahead for one of several alternatives; put them in brackets"),
        ("a*+", "a possessive repetition"),
        ("(?>a)", "an atomic group"),
        (r"a\b", r"\b"),
        ("a**", "multiple repeat"),
        ("*a", "nothing to repeat"),
        ("(a", "missing )"),
        ("a)", "unbalanced )"),
        ("[b-a]", "a bad range of characters"),
        ("[a", "it ends too soon"),
        ("a{1001}", "more than 1,000 repetitions"),
        ("((a{999}){999}){999}", "more than 100,000 states"),
        ("(" * 31, "more than 30 groups inside each other"),
        ("a" * 2_001, "it has 2,001 characters; at most 2,000 are read"),
    ],
)
def test_what_is_refused(text, why):
    with pytest.raises(ValueError) as caught:
        Expressions([text])
    assert str(caught.value) == f"{text[:100]!r} is not a pattern that is read: {why}"


@pytest.mark.parametrize(
    "text", ["(([a-z._0-9])+)+!", "(a|a)*b", "(a*)*b", "(.*.*)*x" * 20, "(a|b|.)*a(a|b|.){90}", "((((){99}){99})*)*b"]
)
def test_nothing_is_tried_twice(text):
    own, begun = Expressions([text]), time.process_time()
    for length in (10, 100, 1_000):
        own.match("a.b" * length)
    assert time.process_time() - begun < 2.0


def test_lists_that_take_too_long_are_given_up():
    own = Expressions([f".*{i}.*a.*" for i in range(300)])
    with pytest.raises(ValueError, match="the regular expressions or wildcards of a list take too long to match"):
        for i in range(MOST_WORK):
            own.match(f"model.layers.{i}.a.{i}")
