"""Some golden values of each kind, in one process; `python -m tests.golden.net --check` asks all of them."""

import os
import subprocess
import sys

import pytest

from tests.golden.net import FLOORS, TOLERANCE, VALUES, answers, compared, read

pytestmark = pytest.mark.usefixtures("cache")

ASKED = {
    "catalogue": ("hardware H100-SXM", "hardware TPU-v9", "models DeepSeek-V3", "validate area", "trace --rate 4"),
    "collectives": ("collective --kind all_reduce --hardware L40S",),
    "single": ("--batch 1.5", "--tp 3", "--adapters loaded=16", "--imbalance 1.5", "--weights fp9", "--cached 200"),
    "production": ("--tp 1 --batch 8", "--prefill tp=3"),
    "datasets": ("one point", "refused"),
    "training": ("--zero 1 --recompute full",),
    "comparisons": ("--sort usd_per_million_token", "--slo tfft", "--simulate 0"),
    "serving": ("--rate 0", "token_budgets=3"),
    "optima": ("unknown",),
    "scenarios": ("run X9",),
}
"""Parts of the names of the questions of each family that are asked here."""


COMPILED = {
    "datasets": ("breakdown", "sample, sobol"),
    "efficiencies": ("dense, kernel",),
}
"""The same of sweeps that are asked of compiled programs too; `--check --compiler llvm` asks all of them."""


@pytest.mark.parametrize("family", COMPILED)
def test_compiled_sweeps_have_the_golden_values_of_numpy(family, monkeypatch):
    pytest.importorskip("llvmlite", reason="machine code needs llvmlite: pip install '.[llvm]'")
    monkeypatch.setattr("sweeps.run.engine.chosen", lambda sizes, most_eager: "llvm")
    kept = {name: one for name, one in read(VALUES)[family].items() if any(part in name for part in COMPILED[family])}
    numbers, others, n = compared(kept, dict(answers(family, kept.__contains__)))
    assert n > 400
    assert [text for size, text in numbers if size > TOLERANCE] == []
    assert others == []


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-5)])
def test_optimised_programs_have_the_golden_values(dtype, tolerance, tmp_path):
    """XLA's programs as users and GPUs run them, without the suite's quick settings: in a process of its own."""
    words = ["--check", "--only", "datasets", "--question", "sobol", "--compiler", "xla", "--optimised", "--numbers"]
    others = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    found = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.golden.net",
            *words,
            "--dtype",
            dtype,
            "--tolerance",
            str(tolerance),
        ],
        env=others | {"XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert int(found.stdout.split()[3]) > 300  # numbers that were compared


@pytest.mark.parametrize("family", ASKED)
def test_golden_values(family):
    kept = {name: one for name, one in read(VALUES)[family].items() if any(part in name for part in ASKED[family])}
    assert kept
    numbers, others, _ = compared(kept, dict(answers(family, kept.__contains__)), FLOORS.get(family, 0.0))
    assert [text for size, text in numbers if size > TOLERANCE] == []
    assert others == []
