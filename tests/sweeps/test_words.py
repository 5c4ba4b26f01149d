"""Words of questions: a word that is declared once is a key, a keyword, a flag, and known to errors."""

import subprocess
import sys

import pytest

DECLARED = """
import argparse, inspect, pathlib, sys, types
import sweeps.ask

path = pathlib.Path(sweeps.ask.__file__).with_name("words.py")
before, trial = {before!r}, {trial!r}
source = path.read_text(encoding="utf-8")
assert source.count(before) == 1
module = types.ModuleType("sweeps.ask.words")
module.__file__ = str(path)
sys.modules["sweeps.ask.words"] = sweeps.ask.words = module
exec(compile(source.replace(before, trial + "\\n" + before), str(path), "exec"), vars(module))

import sweeps

def refused(call, *given, **words):
    try:
        call(*given, **words)
    except ValueError as error:
        return str(error)
    raise AssertionError("it was not refused")
"""
"""The beginning of a program in which one more word is declared than the file has."""

TRIAL = '    tokenizer: str | None = word("NAME", "vocabulary of the prompts")'

OF_A_CASE = """
from sweeps.ask.spec import spec
from sweeps.cli import step, serve
from sweeps.run.simulated.spec import ServeSpec

for function in (sweeps.case, sweeps.sweep, sweeps.serve, sweeps.latency_curve, sweeps.capacity):
    assert "tokenizer" in inspect.signature(function).parameters, function

place = {"hardware": "H100-SXM", "model": "Llama-3.1-8B"}
work = {"workload": {"batch": 1, "isl": 8, "osl": 2}}
assert spec({**place, **work, "tokenizer": "plain"}).words.tokenizer == "plain"
assert refused(spec, {**place, "tokeniser": "plain"}) == "there is no key tokeniser; did you mean tokenizer?"
assert refused(spec, {**place, "tokenizer": 5}) == "tokenizer = 5 must be a name"
assert "did you mean tokenizer" in refused(sweeps.serve, **place, tokeniser="plain")
assert sweeps.case("request", **place, **work, tokenizer="plain").hardware.name == "H100-SXM"

parser = argparse.ArgumentParser()
serve.arguments(parser)
assert "--tokenizer NAME" in parser.format_help() and "vocabulary of the prompts" in parser.format_help()
options = parser.parse_args("--hardware H100-SXM --model Llama-3.1-8B --tokenizer plain --rate 1".split())
asked = serve.question(options)
assert asked.tokenizer == "plain" and '"tokenizer": "plain"' in asked.text()
from sweeps.cli.serve_command import serve_command
assert "--tokenizer plain" in serve_command(asked)
"""

OF_A_COMPARISON = """
from sweeps.cli import compare
from sweeps.studies.compare.words import read

assert "tokenizer" in inspect.signature(sweeps.compare).parameters
asked = {"model": "Llama-3.1-8B", "slo": "ttft=1s"}
assert read({**asked, "tokenizer": "plain"}).tokenizer == "plain"
assert "did you mean tokenizer" in refused(sweeps.compare, **asked, tokeniser="plain")

parser = argparse.ArgumentParser()
compare.arguments(parser)
assert "--tokenizer NAME" in parser.format_help()
assert parser.parse_args(["--tokenizer", "plain"]).tokenizer == "plain"
from sweeps.cli.compare_static import SERVED
assert "tokenizer" in SERVED
"""


@pytest.mark.parametrize(
    ("before", "checks"),
    [
        ("    draft: str | None = word(", OF_A_CASE),
        ("    drafts: Sequence[int] | None = word(", OF_A_COMPARISON),
    ],
    ids=["case", "comparison"],
)
def test_a_word_that_is_declared_once_is_known_everywhere(before, checks):
    program = DECLARED.format(before=before, trial=TRIAL) + checks
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
