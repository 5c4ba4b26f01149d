"""Actions that wait for the import of JAX, by whomever: most answers are given without it."""

import importlib.abc
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

_AWAITED: list[Callable[[], Any]] = []


def with_jax(action: Callable[[], Any]) -> None:
    """Do something as soon as JAX is imported: at once where it is."""
    if "jax" in sys.modules:
        action()
    else:
        _AWAITED.append(action)


class _Import(importlib.abc.MetaPathFinder):
    """Finds JAX as Python does, and does what was awaited when its import is over."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The specification of `jax`; None for every other module."""
        if name != "jax":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            while _AWAITED:
                _AWAITED.pop()()

        spec.loader.exec_module = executed  # type: ignore[method-assign]
        return spec


if "jax" not in sys.modules:
    sys.meta_path.insert(0, _Import())
