"""Folders of shards where the extra `llvm` is not installed: NumPy and XLA compute them."""

import subprocess
import sys

SCRIPT = """
import sys
sys.modules["llvmlite"] = None
from sweeps.cli import main
assert main(["sweep", "speculation", "-o", sys.argv[1], "--compression", "1"]) == 0
assert main(["sweep", "speculation", "--plan"]) == 0
"""


def test_a_sweep_into_a_folder_needs_no_llvmlite(tmp_path):
    words = [sys.executable, "-c", SCRIPT, f"{tmp_path}/folder/"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "80 points" in done.stdout and any((tmp_path / "folder").iterdir())
