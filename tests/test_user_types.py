"""A user's script under strict rules of mypy and pyright: entry points, their words and what answers have are typed."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).parent / "typed_script.py"
ROOT = SCRIPT.parents[1]

WRONG = (
    'import sweeps\nsweeps.request("H100-SXM", "Llama-3.1-8B", workload={}, efficency="derated")\n'
    'sweeps.compare("Llama-3.1-8B", "ttft=1s", disaggregated="no")\n'
    'sweeps.serve("H100-SXM", "Llama-3.1-8B", rate=8).metrics.tpot\n'
)
"""A word that there is not, a text for a switch, an attribute of a dictionary: an error on each of three lines."""


def found_by_mypy(folder, script) -> list[str]:
    """Errors of one script, read as a user's: libraries are silent. What mypy knows of them is kept between runs."""
    words = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={folder}", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *words, str(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    return [line for line in done.stdout.splitlines() if ": error: " in line] + done.stderr.splitlines()


def test_mypy(tmp_path):
    pytest.importorskip("mypy")
    folder = ROOT / ".mypy_cache" / "users"
    assert not found_by_mypy(folder, SCRIPT)
    wrong = tmp_path / "wrong.py"
    wrong.write_text(WRONG, encoding="utf-8")
    assert {line.split(":")[1] for line in found_by_mypy(folder, wrong)} == {"2", "3", "4"}


def test_pyright(tmp_path):
    program = shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed: pip install pyright")
    for name, text in (("script.py", SCRIPT.read_text(encoding="utf-8")), ("wrong.py", WRONG)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    rules = {"include": ["*.py"], "typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(rules), encoding="utf-8")
    command = [program, "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    try:
        told = json.loads(done.stdout)["generalDiagnostics"]
    except ValueError:
        pytest.skip(f"pyright does not run here: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    errors = [(pathlib.Path(one["file"]).name, one["range"]["start"]["line"] + 1) for one in told]
    assert [one for one in errors if one[0] == "script.py"] == []
    assert {line for _, line in errors} == {2, 3, 4}
