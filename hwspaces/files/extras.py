"""Commands that install what an extra of the distribution needs; none of them asks an index for jaxroof."""

import importlib.metadata
import re

DISTRIBUTION = "jaxroof"


def installing(extra: str) -> str:
    """The command that installs the packages of an extra, within the bounds that the distribution states.

    Args:
      extra: its name in pyproject.toml.
    """
    try:
        requirements = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that is not installed
        requirements = []
    # Requirements of an extra carry its name in a marker behind a semicolon.
    ours = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    packages = [line.partition(";")[0].strip() for line in requirements if ours.search(line.partition(";")[2])]
    return f"pip install {' '.join(map(repr, packages))}" if packages else f"pip install '.[{extra}]' in a checkout"
