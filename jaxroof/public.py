"""Public names of a package, written once: in its `__init__.pyi`, which editors and type checkers read as well."""

import sys

TYPE_CHECKING = False  # of `typing`, whose import would take longer than this one

if TYPE_CHECKING:
    from collections.abc import Callable

_jax_at_once = True


class jax_on_use:
    """A context in which public names leave JAX alone until a formula needs it, as in the command line.

    Elsewhere the first public name imports JAX (0.3 s), so that all structs are pytrees before a caller sees one. Those
    made inside are pytrees once a struct is made, or a public name is used, after JAX was imported.
    """

    def __enter__(self) -> None:
        global _jax_at_once
        self._before, _jax_at_once = _jax_at_once, False

    def __exit__(self, *error: object) -> None:
        global _jax_at_once
        _jax_at_once = self._before


def public_names(package: str, stub: str) -> "tuple[list[str], Callable[[str], object], Callable[[], list[str]]]":
    """`__all__`, `__getattr__` and `__dir__` of a package whose names are imported when they are first used.

    Args:
      package: its name.
      stub: the path of its `__init__.pyi`, in which every line is `from MODULE import NAME as PUBLIC`.
    """
    homes: dict[str, tuple[str, str]] = {}
    # Text, not a syntax tree: `jaxroof --help` passes through here, and parsing takes longer than everything else.
    with open(stub, encoding="utf-8") as lines:
        for line in lines:
            words = line.split()
            if words[:1] == ["from"]:
                homes[words[5]] = (words[1], words[3])

    def found(name: str) -> object:
        """Import a public name, or a module of the package, when it is first used: most questions need few of them."""
        import importlib
        import importlib.util

        if name in homes:
            module, attribute = homes[name]
            # Whoever gets a struct from here may give it to JAX, which must know it as a pytree by then.
            if (_jax_at_once or "jax" in sys.modules) and module != "jaxroof.version":
                importlib.import_module("jaxroof.numerics.arrays").import_jax()
            if module != package and hasattr(importlib.import_module(module), attribute):
                return getattr(sys.modules[module], attribute)
            return importlib.import_module(f"{module}.{attribute}")  # a public module of a package
        if name[:1] == "_" or importlib.util.find_spec(f"{package}.{name}") is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return importlib.import_module(f"{package}.{name}")

    def listed() -> list[str]:
        """Names that `dir` shows: the public ones alone, without modules that happen to be imported."""
        return sorted(homes)

    return [public for public in sorted(homes) if public[:2] != "__"], found, listed
