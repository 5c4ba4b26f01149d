"""Signals at random moments of quick commands, from their first 10 ms on, and what they leave behind."""

import os
import signal
import subprocess
import sys
import time

import pytest

from hwspaces.files import interrupted
from sweeps.cli import main, stopping
from tests.stops import OUTCOMES, QUICK, ROOT, stops

pytestmark = pytest.mark.xdist_group("survival")

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}

ENDLESS = """
import signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
import sweeps.cli.step
from hwspaces.files import interrupted

def run(options):
    interrupted.register(options.set[0])
    open(options.set[0], "w").close()
    print("begun", flush=True)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

sweeps.cli.step.run = run
from sweeps.cli import main
sys.exit(main())
"""
"""A verb that never ends and swallows what is raised in it, with a file that is not whole. It hears every signal, also
where the tests run under nohup."""


def test_signals_at_random_moments_end_it_with_a_line_and_no_half_file(tmp_path):
    found = list(stops(tmp_path, QUICK, 8, seed=7))
    assert len(found) == 8
    assert all(stop.outcome in OUTCOMES[:4] for stop in found), found


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_what_swallows_exceptions_is_ended_and_its_file_taken_away(tmp_path, number, status):
    path = tmp_path / "half.nc"
    words = [sys.executable, "-c", ENDLESS, "step", "--set", str(path)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup: the process inherits it
    running = subprocess.Popen(words, env=ENVIRONMENT, **pipes)
    signal.signal(signal.SIGHUP, before)
    try:
        assert running.stdout.readline() == "begun\n" and path.exists()
        begun = time.perf_counter()
        running.send_signal(number)
        running.send_signal(number)  # a second one changes nothing
        said = running.communicate(timeout=60)[1]
    finally:
        running.kill()  # a failure leaves no process behind
    assert time.perf_counter() - begun < 2.0
    name = signal.Signals(number).name
    assert (running.returncode, said) == (status, f"jaxroof step: stopped by {name}; nothing was written\n")
    assert list(tmp_path.iterdir()) == []


def test_an_ignored_signal_stays_ignored():
    """As under nohup, and in a script's background."""
    code = (
        "import os, signal, time\n"
        "from sweeps.cli import stopping\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "stopping.begin()\n"
        "os.kill(os.getpid(), signal.SIGINT)\n"
        "time.sleep(0.2)\n"
        "print('there')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "there\n", "")


def test_the_line_names_what_was_finished():
    stopping.name("jaxroof compare")
    assert stopping.line(signal.SIGINT) == "jaxroof compare: stopped by SIGINT; nothing was written"
    interrupted.register("hidden")
    interrupted.forget("hidden", finished="a\nb.nc")
    assert stopping.line(signal.SIGTERM) == r"jaxroof compare: stopped by SIGTERM after a\nb.nc was written"


def test_what_is_imported_before_signals_are_heard_is_little():
    """Until then the system and Python decide: every module more is a moment in which Ctrl-C ends in a traceback."""
    code = (
        "import sys; before = set(sys.modules); import sweeps.cli; "
        "print(*sorted(name for name in set(sys.modules) - before if not name.startswith(('sweeps', 'jaxroof'))))"
    )
    words = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import os; {code}"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == "\n"


def test_ctrl_c_inside_another_program_is_a_line_too(capsys, monkeypatch):
    def ended(words):
        raise KeyboardInterrupt

    monkeypatch.setattr("sweeps.cli.parser.run", ended)
    interrupted.forget("hidden", finished="of another run.nc")
    assert main(["step"]) == 130
    assert capsys.readouterr().err == "jaxroof step: stopped by SIGINT; nothing was written\n"
