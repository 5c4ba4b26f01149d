"""Versions of jaxroof and of what it computes with: of a bug report, and of a page that a result stands on."""

import importlib.metadata
import platform
import subprocess
from pathlib import Path
from typing import Any

from jaxroof.version import VERSION
from sweeps.answers.answer import say

RECORD = "extra_metadata/commit.txt"
"""File of an installed distribution's metadata that names the commit which it was built from."""


def record() -> dict[str, Any]:
    """Versions, the commit (None where nothing says it) and JAX's devices (None where it has none), for programs."""
    return {
        "jaxroof": VERSION,
        "commit": commit(),
        "python": platform.python_version(),
        "jax": importlib.metadata.version("jax"),
        "devices": devices(),
        "numpy": importlib.metadata.version("numpy"),
        "xarray": importlib.metadata.version("xarray"),
    }


def show(found: dict[str, Any]) -> None:
    """Print what `record` has found."""
    made = f" (commit {found['commit']})" if found["commit"] else ""
    on = "no device" if found["devices"] is None else ", ".join(found["devices"])
    say(f"jaxroof {found['jaxroof']}{made}")
    say(f"Python {found['python']}, JAX {found['jax']} on {on}, NumPy {found['numpy']}, xarray {found['xarray']}")


def commit() -> str | None:
    """The commit of a checkout, with "-dirty" where its files differ, or the one that a wheel records."""
    root = Path(__file__).parents[2]
    if (root / ".git").exists():
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):  # no git here
            return None
        return done.stdout.strip() or None
    try:
        return (importlib.metadata.distribution("jaxroof").read_text(RECORD) or "").strip() or None
    except importlib.metadata.PackageNotFoundError:  # files without an installation
        return None


def devices() -> list[str] | None:
    """JAX's devices by kind with their number, such as `1 x cpu`; None where it cannot start any."""
    from collections import Counter

    try:
        from jaxroof.numerics.arrays import jax

        kinds = Counter(device.device_kind for device in jax.devices())
    except (ImportError, RuntimeError):
        return None
    return [f"{count} x {kind}" for kind, count in kinds.items()]
