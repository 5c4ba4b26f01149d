"""Start of the `jaxroof` command, where the packages that it runs are those of this distribution."""

import importlib.util
import os
import sys

PACKAGES = ("hwspaces", "workloads", "sweeps")
"""Packages of the distribution beside this one. Other projects have packages of these names too."""

OWN = "jaxroof.public"
"""Text that the first file of each of them has, and no other project's."""


def main() -> None:
    """Run the command line, or say in one line which package is another project's and how to mend it; status 2."""
    refused = refusal()
    if refused is not None:
        sys.stderr.write(f"jaxroof: {refused}\n")
        sys.exit(2)
    # By its name: `jaxroof` is the cost model, which imports nothing that stands above it.
    importlib.import_module("sweeps.cli").main()


def refusal() -> str | None:
    """What is wrong with the packages that Python would import, and how to mend it; None where nothing is."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name in PACKAGES:
        own = os.path.join(root, name, "__init__.py")
        # The package is found, but not run: another project's may do anything.
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return f"the package {name} is not in {root}, beside jaxroof: reinstall jaxroof"
        # A package of the same name stands earlier on the path.
        if os.path.realpath(spec.origin) != os.path.realpath(own):
            return (
                f"the package {name} is another project's, {spec.origin}, and hides jaxroof's own: take "
                f"{os.path.dirname(os.path.dirname(spec.origin))} off PYTHONPATH, or use a virtual environment"
            )
        # Both are installed in one place, and the other was installed later: its files are over those of jaxroof.
        with open(own, encoding="utf-8") as file:
            if OWN not in file.read():
                return (
                    f"another project named {name} is installed over jaxroof's package, {own}: use a virtual "
                    f"environment for each, or `pip uninstall {name}` and then reinstall jaxroof"
                )
    return None
