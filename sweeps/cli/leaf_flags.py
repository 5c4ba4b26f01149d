"""Flags of leaves, from the fields that declare them: name, placeholder and help.

Declarations are read from the source text. Importing the cost model takes a second, for which no usage line may wait.
"""

import argparse
import ast
import functools
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

KINDS = ("number", "count", "share", "word", "text", "option")
"""Functions of `jaxroof.numerics.struct` that declare a leaf which may have a flag."""


SEVERAL = ("WxH,..",)
"""Placeholders of flags that may be given several times."""


class Flag(NamedTuple):
    """The flag of one leaf."""

    placeholder: str  # "": it takes no value
    help: str
    counts: bool = False  # its value is a number of things: `N` or `TOKENS`


@functools.cache
def leaf_flags(*modules: str) -> dict[str, Flag]:
    """Flags of the leaves that modules declare, by the leaf's name: `leaf_flags("jaxroof.jobs.step")`."""
    flags: dict[str, Flag] = {}
    for module in modules:
        # The module's path follows from its name, without importing it.
        package, _, path = module.partition(".")
        file = _folder(package) / f"{path.replace('.', '/')}.py"
        tree = ast.parse(file.read_text(encoding="utf-8"))
        assigned = [(node.targets[0], node.value) for node in tree.body if isinstance(node, ast.Assign)]
        # Names that a module assigns, such as lists of choices: a declaration may refer to them.
        named = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
                continue
            if isinstance(node.value, ast.Call):
                kind, facts = _facts(node.value, named)
                # Options always have a flag, numbers and words only where they declare one.
                if kind == "option" or facts.get("flag"):
                    flags[node.target.id] = _flag(**facts)
    return flags


def _folder(package: str) -> Path:
    spec = find_spec(package)
    # The origin of a package is its __init__.py, whose folder holds the modules.
    if spec is None or spec.origin is None:
        raise ValueError(f"the package {package} is not installed")
    return Path(spec.origin).parent


class Listed(argparse.Action):
    """The action of a flag that takes a list with commas: given again, it adds to the list."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Join the values so far and this one."""
        # The action joins lists with commas, as if they had been given at once.
        before = getattr(namespace, self.dest)
        setattr(namespace, self.dest, values if before is None else f"{before},{values}")


def add_flags(parser: argparse._ActionsContainer, flags: dict[str, Flag]) -> None:
    """Add flags to a parser."""
    for name, declared in flags.items():
        if declared.placeholder:
            action = Listed if declared.placeholder in SEVERAL else "store"
            parser.add_argument(flag(name), metavar=declared.placeholder, action=action, help=declared.help)
        else:
            parser.add_argument(flag(name), action="store_const", const=True, help=declared.help)


def flag(name: str) -> str:
    """The flag of a setting."""
    return f"--{name.replace('_', '-')}"


def _facts(call: ast.Call, named: dict[str, ast.expr]) -> tuple[str, dict[str, Any]]:
    """What a field declares: the function that it calls, and that function's arguments by name."""
    kind = getattr(call.func, "id", "")
    if kind not in KINDS:
        return kind, {}
    # Positional parameters of the declaring functions, in their order.
    places = {"number": ("unit", "meaning", "about"), "word": ("meaning", "choices", "about")}
    given = dict(zip(places.get(kind, ("meaning", "about")), call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg is not None}
    # A leaf without a flag needs no further evaluation, which might refer to names that are not literals.
    if not (kind == "option" or "flag" in given):
        return kind, {}
    return kind, {name: ast.literal_eval(named.get(getattr(value, "id", ""), value)) for name, value in given.items()}


def _flag(flag: str = "", **facts: Any) -> Flag:
    return Flag(flag, _help(**facts), flag in ("N", "TOKENS"))


def _help(
    meaning: str,
    about: str = "",
    choices: tuple[Any, ...] = (),
    codes: tuple[Any, ...] = (),
    default: Any = None,
    **_: Any,
) -> str:
    """What a flag sets, its words, and its default."""
    # Codes are stored as numbers and shown as words: the default is the word of its code.
    if codes:
        meaning, choices, default = meaning.partition(":")[0], codes, codes[int(default)]
    if choices:
        words = ", ".join(f"{word} (default)" if word == default else word for word in choices)
        return f"{meaning}: {words}{f'; {about}' * bool(about)}"
    # A switch needs no default: it is off unless given.
    usual = "" if default is None or isinstance(default, bool) else f" (default {default:g})"
    return f"{meaning.replace(' {}', '')}{f'; {about}' * bool(about)}{usual}"
