"""Completion of verbs, flags, names and files in the shells that are here."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time

import pytest

from sweeps.cli import completing, main
from sweeps.cli.completion import SHELLS

pytest.importorskip("argcomplete", reason="the extra completion is not installed")

START = {
    "bash": (["bash", "--norc", "-i"], 'eval "$(jaxroof completion bash)"'),
    "zsh": (["zsh", "-f", "-i"], 'autoload -U compinit; compinit -u -D; eval "$(jaxroof completion zsh)"'),
    "fish": (["fish", "--no-config", "-i"], "jaxroof completion fish | source"),
}
"""Shell -> its interactive start, and the line that loads the script."""

PATIENCE = 60.0
"""s that a shell has for an answer, on a busy machine."""


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """A folder with the command `jaxroof` of this tree, and an environment that finds it first."""
    folder = tmp_path_factory.mktemp("bin")
    script = folder / "jaxroof"
    script.write_text(f"#!{sys.executable}\nfrom sweeps.cli import main\nmain()\n")
    script.chmod(0o755)
    paths = [entry for entry in sys.path if entry]
    return os.environ | {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([os.getcwd(), *paths]),
        "TERM": "xterm",
    }


def completed(command, line, folder=None):
    """What may follow a line, as a script asks for it."""
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    answer = subprocess.run(
        ["bash", "-c", "jaxroof 8>&1 >/dev/null 2>&1"], env=command | asked, capture_output=True, text=True, cwd=folder
    )
    return [name.strip() for name in answer.stdout.splitlines()]


def test_names_are_completed(command, tmp_path):
    (tmp_path / "mine.toml").touch()
    (tmp_path / "folder").mkdir()
    assert completed(command, "jaxroof requ") == ["request"]
    assert completed(command, "jaxroof request --hard") == ["--hardware"]
    assert completed(command, "jaxroof request --hardware H200") == ["H200-SXM"]
    assert completed(command, "jaxroof compare --hardware H200-SXM,B200-S") == ["H200-SXM,B200-SXM"]
    assert "Llama-3.1-8B" in completed(command, "jaxroof request --model Llama-3.1-8")
    assert completed(command, "jaxroof serve --engine vl") == ["vllm"]
    assert completed(command, "jaxroof validate kern") == ["kernels"]
    assert completed(command, "jaxroof export perfetto tr") == ["train"]
    assert completed(command, "jaxroof sweep mi", tmp_path) == ["mine.toml"]
    assert completed(command, "jaxroof request --hardware mi", tmp_path) == ["mine.toml"]
    assert completed(command, "jaxroof status fo", tmp_path) == ["folder/"]
    assert completed(command, "jaxroof request --tp ", tmp_path) == []


@pytest.mark.parametrize("shell", START)
def test_a_shell_completes_what_is_typed(shell, command, tmp_path):
    for needed in (shell, "setsid"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not installed")
    words, load = START[shell]
    terminal, its = pty.openpty()
    process = subprocess.Popen(
        ["setsid", "--ctty", *words], stdin=its, stdout=its, stderr=its, env=command, cwd=tmp_path
    )
    os.close(its)
    try:
        os.write(terminal, f"{load}; echo RE''ADY\n".encode())
        assert b"READY" in until(terminal, b"READY")
        os.write(terminal, b"jaxroof request --hardware H200\t")
        assert b"H200-SXM" in until(terminal, b"H200-SXM")
    finally:
        os.close(terminal)
        process.kill()
        process.wait()


def until(terminal, mark):
    """What a terminal shows until it shows a mark."""
    shown, end = b"", time.monotonic() + PATIENCE
    while mark not in shown and time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            shown += os.read(terminal, 65536)
    return shown


def test_every_shell_of_the_help_has_a_script(capsys):
    assert set(START) == set(SHELLS)
    for shell in SHELLS:
        assert main(["completion", shell]) == 0 and "jaxroof" in capsys.readouterr().out
    assert main(["completion", "tcsh"]) == 2
    assert capsys.readouterr().err == ("jaxroof completion: SHELL = 'tcsh' is not known; known: bash, zsh, fish\n")


def test_the_library_is_asked_for_where_it_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "argcomplete", None)
    assert main(["completion", "bash"]) == 2
    assert "completion needs argcomplete: pip install" in capsys.readouterr().err


def test_placeholders_say_what_may_be_a_file():
    for metavar in ("FILE", "OUT.nc", "SPEC.toml", "DIR", "PICTURE", "NAME"):
        assert completing.FILES.search(metavar)
    for metavar in ("N", "N,..", "PATH=VALUE", "LIMITS", "TOKENS", "NAME=VALUE"):
        assert not completing.FILES.search(metavar)
