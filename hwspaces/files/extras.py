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
        asked = importlib.metadata.requires(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:  # run from a checkout that is not installed
        asked = []
    ours = re.compile(rf"extra\s*==\s*['\"]{re.escape(extra)}['\"]")
    found = [line.partition(";")[0].strip() for line in asked if ours.search(line.partition(";")[2])]
    return f"pip install {' '.join(map(repr, found))}" if found else f"pip install '.[{extra}]' in a checkout"
