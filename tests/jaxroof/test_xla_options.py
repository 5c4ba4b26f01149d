"""Options of XLA's compiler: those that it does not know are left out, before they end a compilation or the process."""

import os
import re
import subprocess
import sys

import jax
import pytest

from jaxroof.numerics.arrays import jax as lazily_jax
from jaxroof.numerics.xla_options import QUICK, QUICKLY, XlaOptions, known, quick_options
from sweeps.run import ways
from tests.survival import ROOT

LEVEL = {"xla_backend_optimization_level": 0}
"""Every supported XLA has it."""


def test_options_that_xla_does_not_know_are_left_out():
    assert known(LEVEL | {"xla_cpu_never_was": True}) == LEVEL
    assert dict(XlaOptions(**LEVEL, xla_cpu_never_was=True)) == LEVEL
    assert known({"xla_cpu_never_was": 1}) == {} and not XlaOptions(xla_cpu_never_was=1)


def test_a_known_option_with_a_wrong_value_is_an_error():
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_backend_optimization_level"):
        known({"xla_backend_optimization_level": "perhaps"})


def test_flags_that_would_end_the_process_are_left_out():
    """In a process where XLA has not read its flags yet."""
    code = (
        "from jaxroof.numerics.xla_options import flags, refusal\n"
        "print(flags({'xla_backend_optimization_level': 0, 'xla_cpu_never_was': True}))\n"
        "print(refusal('--xla_backend_optimization_level=0'))\n"
        "print(refusal('--xla_cpu_never_was=true'))\n"
        "import jax; print(jax.numpy.ones(2).sum())\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert said[0] == "--xla_backend_optimization_level=0" and (said[1], said[3]) == ("None", "2.0")
    assert "xla_cpu_never_was" in said[2]


def test_other_devices_are_asked_for_none(monkeypatch):
    monkeypatch.setattr(lazily_jax, "default_backend", lambda: "gpu")
    assert dict(XlaOptions(**LEVEL)) == {} and ways.designs(gradients=True).options == ()


@pytest.mark.parametrize("options", [QUICK, QUICKLY])
def test_what_is_asked_for_compiles(options):
    assert options.wanted and set(options) <= set(options.wanted)
    assert jax.jit(lambda x: 2.0 * x, compiler_options=options)(3.0) == 6.0


def test_quick_options_are_for_anybody():
    import jaxroof

    assert jaxroof.quick_options() == dict(QUICK) == quick_options()
    slope = jax.jit(jax.grad(lambda x: x * x), compiler_options=jaxroof.quick_options())
    assert slope(3.0) == 6.0


def test_options_are_named_in_one_file():
    """Everything else takes them from there, so that none is given to a compiler that was not asked."""
    for package in ("jaxroof", "hwspaces", "workloads", "sweeps"):
        for path in (ROOT / package).rglob("*.py"):
            named = re.search(r"\bxla_(cpu|gpu|tpu|backend|llvm)_\w+", path.read_text(encoding="utf-8"))
            assert named is None or path == ROOT / "jaxroof" / "numerics" / "xla_options.py", (path, named)
