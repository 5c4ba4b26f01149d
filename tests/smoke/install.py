"""The wheel in an environment of its own and an empty folder, and what `check.py` finds there.

    python tests/smoke/install.py [--dependencies oldest|newest]

Oldest: every dependency at the lower bound that pyproject.toml states. By default on the oldest Python that is
supported, and the newest allowed ones on all others, for which the oldest have no wheels.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTRAS = ("plot", "report", "validate", "traces", "optimize", "pymoo", "optuna", "dask", "llvm", "completion", "ui")
PACKAGES = ("jaxroof", "hwspaces", "workloads", "sweeps")


def main() -> None:
    """Build, install, check; the exit status is that of the first step that fails."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dependencies", choices=("oldest", "newest"), default=turn(project))
    dependencies = parser.parse_args().dependencies
    with tempfile.TemporaryDirectory(prefix="jaxroof-smoke-") as name:
        folder = pathlib.Path(name)
        venv.create(folder / "environment", with_pip=True)
        python = str(folder / "environment" / "bin" / "python")
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(ROOT)], check=True)
        (wheel,) = folder.glob("*.whl")
        require_whole(wheel)
        (folder / "oldest.txt").write_text("\n".join(lowest(project)) + "\n", encoding="utf-8")
        constraints = ["--constraint", str(folder / "oldest.txt")] if dependencies == "oldest" else []
        wanted = f"jaxroof[{','.join(EXTRAS)}] @ {wheel.as_uri()}"
        subprocess.run([*pip, "install", "--only-binary", ":all:", "--no-compile", *constraints, wanted], check=True)
        said = [word for word in pip if word != "--quiet"]
        found = subprocess.run([*said, "list", "--format", "freeze"], check=True, capture_output=True, text=True).stdout
        shown = [line for line in found.splitlines() if re.match("jaxlib|numpy|scipy|xarray|llvmlite", line)]
        version = ".".join(map(str, sys.version_info[:3]))
        print(f"Python {version}, {dependencies} dependencies: {', '.join(shown)}", flush=True)
        (folder / "empty").mkdir()
        check = ROOT / "tests" / "smoke" / "check.py"
        sys.exit(subprocess.run([python, "-I", str(check)], cwd=folder / "empty").returncode)


def turn(project: dict) -> str:
    """Which dependencies this Python is checked with."""
    oldest = tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))
    return "oldest" if sys.version_info[:2] == oldest else "newest"


def lowest(project: dict) -> list[str]:
    """The lower bound of every dependency as the only version."""
    asked = project["dependencies"] + [line for name in EXTRAS for line in project["optional-dependencies"][name]]
    return [re.sub(r">=([^,]+).*", r"==\1", line) for line in asked]


def require_whole(wheel: pathlib.Path) -> None:
    """AssertionError unless the wheel has every file of the packages, and nothing else beside its metadata."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file())
    wanted = {path.relative_to(ROOT).as_posix() for path in files if "__pycache__" not in path.parts}
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert found == wanted, sorted(found ^ wanted)[:20]


if __name__ == "__main__":
    main()
