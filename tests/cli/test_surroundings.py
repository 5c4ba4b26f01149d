"""Streams, limits and variables that do not allow a command to work: one line and status 2, and no traceback."""

import os
import subprocess
import sys

import pytest

from sweeps.cli import environment, faults, main, printing
from tests.stops import ROOT, SCRIPT

STEP = "step --hardware H100-SXM --model Llama-3.1-8B --efficiency derated --decode 8 --context 1024"


SERVE = "serve --hardware H100-SXM --model Llama-3.1-8B --efficiency derated --rate 1 --requests 4 --isl 64 --osl 8"
"""A verb that compiles: those that answer at a point do not need JAX."""


def ran(words: str, around: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """A command in a shell: `{}` in `around` is the command."""
    command = (around or "{}").format(f'"{sys.executable}" -c "{SCRIPT}" {words}')
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, timeout=300)


REFUSED = {
    "closed stdout": ("hardware", "{} >&-", {}, "jaxroof hardware: standard output is closed"),
    "full stdout": ("hardware", "{} > /dev/full", {}, "standard output cannot be written: No space left on device"),
    "full stdout of a help": ("--help", "{} > /dev/full", {}, "jaxroof: standard output cannot be written: No space"),
    "little memory": ("hardware", "ulimit -v 1000000; {}", {}, "no memory: this process may have 1.02 GB of addresses"),
    "no compilation": (STEP, "", {"JAX_DISABLE_JIT": "1"}, "JAX_DISABLE_JIT=1: jaxroof computes by compiled programs"),
    "no such platform": (SERVE, "", {"JAX_PLATFORMS": "abacus"}, "JAX_PLATFORMS=abacus: JAX finds no such device here"),
    "unknown flag": (STEP, "", {"XLA_FLAGS": "--xla_no=1"}, "XLA_FLAGS=--xla_no=1: Unknown flag in XLA_FLAGS"),
    "bad flag": (STEP, "", {"XLA_FLAGS": "--xla_cpu_enable_fast_math=perhaps"}, "interpret value perhaps for flag"),
    "no cache": (SERVE, "", {"JAX_COMPILATION_CACHE_DIR": "/dev/null/x"}, "/dev/null/x is not a folder and cannot be"),
}


@pytest.mark.parametrize("words, around, variables, reason", REFUSED.values(), ids=REFUSED)
def test_it_says_what_is_in_the_way(words, around, variables, reason):
    done = ran(words, around, **variables)
    assert done.returncode == 2 and reason in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert done.stdout == ""


ALLOWED = {
    "closed stdin": ("{} <&-", {}),
    "closed stderr": ("{} 2>&-", {}),
    "no home": ("", {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/x"}),
    "warnings are errors": ("", {"PYTHONWARNINGS": "error", "PYTHONOPTIMIZE": "2"}),
    "a cache to read": ("", {"JAX_COMPILATION_CACHE_DIR": "/proc"}),
}


@pytest.mark.parametrize("around, variables", ALLOWED.values(), ids=ALLOWED)
def test_it_works_where_it_can(around, variables):
    done = ran(STEP, around, **variables)
    assert done.returncode == 0 and "decoded tokens/s" in done.stdout and done.stderr == ""


def test_characters_that_an_encoding_lacks_are_escapes():
    done = ran("models $'\\xc2\\xb5\\xc3\\x97'", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (2, f"jaxroof models: \\xb5\\xd7: {NO_MODEL}\n")


NO_MODEL = "no model of this name in the catalogue, and no such file"


def test_a_defect_is_one_line_with_status_1_and_a_traceback_if_asked_for():
    code = "import sweeps.cli.hardware as verb; verb.run = lambda options: {}['key']; " + SCRIPT
    words = [sys.executable, "-c", code, "hardware"]
    for asked, lines in (("", 1), ("1", 5)):
        variables = os.environ | {"PYTHONPATH": str(ROOT), faults.TRACEBACK: asked}
        done = subprocess.run(words, env=variables, capture_output=True, text=True)
        last = done.stderr.splitlines()[-1]
        assert done.returncode == 1
        assert last.startswith("jaxroof hardware: a defect of jaxroof: KeyError: 'key' (sweeps/cli/")
        assert last.endswith("JAXROOF_TRACEBACK=1 shows the traceback to report")
        assert (done.stderr.count("\n") == 1) == (lines == 1) and ("Traceback" in done.stderr) == (lines > 1)


ERRORS = {
    "memory": (MemoryError(), "no memory: "),
    "device": (RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 8 bytes."), "no memory: "),
    "library": (ImportError("libbz2.so: failed to map segment from shared object"), "no memory: "),
    "system": (OSError(12, "Cannot allocate memory"), "no memory: "),
    "threads": (RuntimeError("can't start new thread"), "no thread can be started: "),
    "warning": (DeprecationWarning("old"), "DeprecationWarning: old; PYTHONWARNINGS or -W makes warnings errors"),
}


@pytest.mark.parametrize("error, reason", ERRORS.values(), ids=ERRORS)
def test_what_libraries_say_of_the_surroundings_is_one_line(error, reason, monkeypatch, capsys):
    def run(words):
        raise error

    monkeypatch.setattr("sweeps.cli.parser.run", run)
    assert main(["step"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"jaxroof step: {reason}") and said.count("\n") == 1


def test_other_errors_are_for_the_caller(monkeypatch):
    assert environment.explained(KeyError("key")) is None
    monkeypatch.setattr("sweeps.cli.parser.run", lambda words: {}["key"])
    with pytest.raises(KeyError):
        main(["step", "-v"])


def test_an_error_of_a_file_is_not_one_of_standard_output(tmp_path, capsys):
    class Full:
        def write(self, text):
            raise OSError(28, "No space left on device")

        flush = write

    out = printing.Printed(Full(), required=True)
    with pytest.raises(printing.Unprintable, match="standard output cannot be written: No space left on device"):
        out.write("text")
    printing.Printed(Full(), required=False).write("what cannot be said")
    assert main(["sweep", str(tmp_path / "a\nb.toml"), "-o", "out.nc"]) == 2
    assert capsys.readouterr().err.startswith("jaxroof sweep: ")
