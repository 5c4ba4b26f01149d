"""Compiled programs of Python calls are kept in the user's cache folder, and nobody else's are."""

import os
import pathlib
import subprocess
import sys
import warnings

import jax
import pytest

from sweeps.run import compile_cache
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
    compile_cache._say.cache_clear()
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


def kept_program(constant: float) -> None:
    """A program that is compiled anew, unless the folder has it."""
    jax.clear_caches()
    with precision("float32"):
        jax.jit(lambda x: constant * x + 6.0)(1.0)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("damage", [b"", b"not a program"], ids=["empty", "overwritten"])
def test_a_damaged_program_is_replaced_with_a_line(folder, damage, capfd):
    kept_program(3.5)
    (name,) = programs(folder)
    whole = (folder / name).read_bytes()
    (folder / name).write_bytes(damage)
    (folder / "other-cache").write_bytes(damage)
    (folder / "notes.txt").write_text("of the user")
    for _ in range(2):
        kept_program(3.5)
    assert capfd.readouterr().err == (
        f"jaxroof: a compiled program in {folder} was damaged: the folder has been emptied, and fills again\n"
    )
    assert programs(folder) == {name} and len((folder / name).read_bytes()) > len(whole) / 2
    assert (folder / "notes.txt").exists()


@pytest.mark.filterwarnings("default")
def test_what_cannot_be_removed_is_named(folder, capfd):
    kept_program(3.75)
    (name,) = programs(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    kept_program(3.75)
    said = capfd.readouterr().err
    assert f"a compiled program in {folder} cannot be read: remove the folder (" in said.splitlines()[0]


def test_other_warnings_are_shown_as_ever(folder, recwarn):
    with precision("float32"), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        warnings.warn("something else", stacklevel=1)
    assert [str(one.message) for one in found] == ["something else"]


def test_a_folder_that_others_may_write_into_is_not_used(folder, capfd):
    folder.mkdir()
    folder.chmod(0o777)
    kept_program(4.25)
    assert programs(folder) == set()
    why = f"every user may write into {folder}; chmod o-w {folder}"
    assert capfd.readouterr().err == f"jaxroof: compiled programs are not kept: {why}\n"


def test_a_folder_of_another_user_is_not_used(folder, capfd, monkeypatch):
    folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(folder).st_uid + 1)
    kept_program(4.5)
    assert programs(folder) == set() and f"{folder} belongs to another user" in capfd.readouterr().err


def test_a_new_folder_is_the_users_alone(folder):
    kept_program(4.75)
    assert folder.stat().st_mode & 0o777 == 0o700 and compile_cache.danger(folder) is None
    assert compile_cache.danger(pathlib.Path("/nowhere/at/all")) is None
