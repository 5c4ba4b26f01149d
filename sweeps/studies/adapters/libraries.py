"""An optimiser's library, or one line that says how to install it."""

import importlib
from types import ModuleType

from hwspaces.files.extras import installing


def library(name: str, extra: str) -> ModuleType:
    """The module `name`.

    Args:
      extra: of jaxroof, which installs it.

    Raises:
      ValueError: one line with the command that installs it, where it is missing.
    """
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The package itself is there, and something that it imports is missing: that error says more.
        if error.name != package:
            raise
        raise ValueError(f"{package} is not installed: {installing(extra)}") from None
