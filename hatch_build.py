"""Record of the commit that a distribution is built from, which `jaxroof --version` prints."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "COMMIT"
"""File of a source distribution that names its commit."""


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the commit to the metadata of a wheel, and to the files of a source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add it, where the folder is a checkout or says its commit; an editable installation asks git when it runs."""
        commit = _commit(Path(self.root))
        if commit is None or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name, "commit.txt")
        file.write_text(commit + "\n", encoding="utf-8")
        key, name = ("extra_metadata", file.name) if self.target_name == "wheel" else ("force_include", SOURCE)
        build_data[key][str(file)] = name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file that was added."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _commit(root: Path) -> str | None:
    """The commit of a checkout, with "-dirty" where its files differ, or the one that a source distribution names."""
    if (root / SOURCE).exists():
        return (root / SOURCE).read_text(encoding="utf-8").strip()
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:  # no git here
        return None
    return done.stdout.strip() or None
