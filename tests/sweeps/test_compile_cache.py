"""Compiled programs of Python calls are kept in the user's cache folder, and nobody else's are."""

import os
import subprocess
import sys

import jax
import pytest

from sweeps.run.precision import precision

ALONE = """
import os, sys
from sweeps.run.precision import precision
before = dict(os.environ)
with precision("float64"):
    pass
assert "jax" not in sys.modules and dict(os.environ) == before
with precision("float64"):
    import jax
    jax.jit(lambda x: 3.0 * x)(1.0)
assert dict(os.environ) == before and not jax.config.jax_enable_x64
assert jax.config.jax_compilation_cache_dir is None and jax.config.jax_persistent_cache_min_compile_time_secs == 1.0
jax.jit(lambda x: 5.0 * x)(1.0)
"""


@pytest.fixture
def folder(monkeypatch, tmp_path):
    names = ("jax_enable_compilation_cache", "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: getattr(jax.config, name) for name in names}
    jax.config.update("jax_enable_compilation_cache", True)
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    yield tmp_path / "jaxroof"
    for name, value in before.items():
        jax.config.update(name, value)


def programs(folder) -> set[str]:
    return {path.name for path in folder.iterdir() if path.name.endswith("-cache")}


def test_inside_of_a_call_programs_are_kept(folder):
    with precision("float32"):
        jax.jit(lambda x: 3.25 * x + 1.0)(1.0)
        with precision("float64"):
            jax.jit(lambda x: 3.25 * x + 2.0)(1.0)
        jax.jit(lambda x: 3.25 * x + 3.0)(1.0)
    kept = programs(folder)
    assert len(kept) == 3
    jax.jit(lambda x: 3.25 * x + 4.0)(1.0)
    assert jax.config.jax_compilation_cache_dir is None and programs(folder) == kept


def test_a_folder_of_the_users_own_stays(folder, tmp_path):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    with precision("float32"):
        assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own")
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "own") and not folder.exists()


def test_nothing_is_kept_where_jax_may_not(folder):
    jax.config.update("jax_enable_compilation_cache", False)
    with precision("float32"):
        jax.jit(lambda x: 3.25 * x + 5.0)(1.0)
    assert not folder.exists()


def test_a_process_that_imports_jax_inside(tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    done = subprocess.run([sys.executable, "-c", ALONE], env=environment | {"XDG_CACHE_HOME": str(tmp_path)})
    assert done.returncode == 0 and len(programs(tmp_path / "jaxroof")) == 1
