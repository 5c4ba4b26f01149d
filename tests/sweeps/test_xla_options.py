"""Options of XLA's compiler: those that it does not know are left out, before they end a compilation or the process."""

import pathlib
import re

import jax
import pytest

import sweeps
from sweeps.run import ways
from sweeps.run.xla_options import Options, flags, known, refusal

LEVEL = {"xla_backend_optimization_level": 0}
"""Every supported XLA has it."""


def test_options_that_xla_does_not_know_are_left_out():
    assert known(LEVEL | {"xla_cpu_never_was": True}) == LEVEL
    assert dict(Options(**LEVEL, xla_cpu_never_was=True)) == LEVEL
    assert known({"xla_cpu_never_was": 1}) == {} and not Options(xla_cpu_never_was=1)


def test_a_known_option_with_a_wrong_value_is_an_error():
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_backend_optimization_level"):
        known({"xla_backend_optimization_level": "perhaps"})


def test_flags_that_would_end_the_process_are_left_out():
    assert flags(LEVEL | {"xla_cpu_never_was": True}) == "--xla_backend_optimization_level=0"
    assert refusal("--xla_backend_optimization_level=0") is None
    assert "--xla_cpu_never_was=true" in refusal("--xla_cpu_never_was=true")


def test_other_devices_are_asked_for_none(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert dict(Options(**LEVEL)) == {} and ways.designs(gradients=True).options == ()


@pytest.mark.parametrize("options", [ways.QUICK, ways.QUICKLY])
def test_what_is_asked_for_compiles(options):
    assert options.wanted and set(options) <= set(options.wanted)
    assert jax.jit(lambda x: 2.0 * x, compiler_options=options)(3.0) == 6.0


def test_options_are_named_in_one_file():
    """Everything else takes them from there, so that none is given to a compiler that was not asked."""
    package = pathlib.Path(sweeps.__file__).parent
    for folder in (package, package.parent / "jaxroof", package.parent / "workloads", package.parent / "hwspaces"):
        for path in folder.rglob("*.py"):
            named = re.search(r"\bxla_(cpu|gpu|tpu|backend|llvm)_\w+", path.read_text(encoding="utf-8"))
            assert named is None or path == package / "run" / "ways.py", (path, named)
