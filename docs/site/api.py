"""A page for every package with its public names: signatures, docstrings, and fields of structs with their units."""

import ast
import dataclasses
import importlib
import inspect
import re
import sys
import textwrap
import tokenize
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from docs.site import docstrings, pages
from jaxroof.numerics.struct import Declaration
from tests.reference import allowed, default

PACKAGES = ("jaxroof", "hwspaces", "workloads", "sweeps", "sweeps.adapters")

ABOUT = """Public names of the four packages, generated from their docstrings and declarations; everything else may
change without notice. Numbers are in SI units. In signatures ``Scalar`` is a number of shape (): a Python float, a
NumPy scalar, or an array or tracer of JAX. ``Array`` has one dimension or more, which its description states."""


def write(docs: Path) -> None:
    """Write DOCS/reference/api/: an index, and a page for every package."""
    modules = {name: _imported(name) for name in PACKAGES}
    rows = [(f":doc:`{name}`", pages.plain(_first(module))) for name, module in modules.items()]
    index = [pages.title("Python"), ABOUT, pages.table(("package", "content"), rows, "25 75")]
    texts = {"index": "\n\n".join([*index, pages.toctree(PACKAGES, ":hidden:")]) + "\n"}
    pages.write_folder(docs / "reference" / "api", texts | {name: page(name) for name in PACKAGES})


def page(package: str) -> str:
    """The page of one package: a table of its names, and an entry for each, by the room that it is from."""
    module, homes = _imported(package), public_homes(package)
    rows = [(f":py:obj:`{name} <{package}.{name}>`", pages.plain(summary(package, name))) for name in homes]
    parts = [pages.title(package), docstrings.described(inspect.getdoc(module) or "")]
    parts += [pages.table(("name", "content"), rows, "30 70"), f".. py:module:: {package}"]
    rooms = {name: home.split(".")[1].replace("_", " ").capitalize() for name, (home, _) in homes.items()}
    room = ""
    for name in homes:
        # Names of one room stand together in the package's list.
        if rooms[name] != room and len(set(rooms.values())) > 1:
            room = rooms[name]
            parts.append(pages.title(room, 1))
        parts.append(entry(package, name))
    return "\n\n".join(parts) + "\n"


def public_homes(package: str) -> dict[str, tuple[str, str]]:
    """Public names of a package: the module of each and its name there, in the order of `__init__.pyi`."""
    stub = Path(_imported(package).__file__ or "").with_suffix(".pyi").read_text(encoding="utf-8")
    imports = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {each.asname or each.name: (node.module or "", each.name) for node in imports for each in node.names}


def summary(package: str, name: str) -> str:
    """The first line of what is known of a public name."""
    return text_of(package, name).partition("\n")[0]


def text_of(package: str, name: str) -> str:
    """The docstring of a public name: of a constant the text below it."""
    thing = getattr(_imported(package), name)
    if callable(thing) or inspect.ismodule(thing):
        return inspect.getdoc(thing) or ""
    return _below(*public_homes(package)[name])


def entry(package: str, name: str) -> str:
    """What the page says of one public name."""
    thing, text = getattr(_imported(package), name), text_of(package, name)
    body = docstrings.described(text)
    if f"{package}.{name}" in PACKAGES:
        return f":doc:`{package}.{name}`"
    if inspect.ismodule(thing):
        own = [each for each in vars(thing).values() if getattr(each, "__module__", None) == thing.__name__]
        parts = [_entry(each.__name__, each) for each in own if not each.__name__.startswith("_")]
        head = f".. py:module:: {package}.{name}\n\n.. py:currentmodule:: {package}.{name}"
        return "\n\n".join([pages.title(name, 1), head, body, *parts, f".. py:currentmodule:: {package}"])
    if not callable(thing):
        value = repr(thing)
        shown = f"   :value: {value}\n" if len(value) < 120 else ""
        return f".. py:data:: {name}\n{shown}\n{pages.indented(body)}"
    return _entry(name, thing)


def _entry(name: str, thing: Any) -> str:
    body = docstrings.described(inspect.getdoc(thing) or "")
    if not inspect.isclass(thing):
        return f".. py:function:: {name}{signature(thing)}\n\n{pages.indented(body)}"
    parts = [body, *fields(thing), *methods(thing)]
    return f".. py:class:: {name}\n\n{pages.indented(chr(10).join(part + chr(10) for part in parts if part))}"


def methods(kind: type) -> Iterator[str]:
    """Entries of a class's public methods and properties."""
    for name, member in vars(kind).items():
        text = docstrings.described(inspect.getdoc(member) or "")
        if name.startswith("_") or not text:
            continue
        if isinstance(member, property):
            written = annotation(_tree(member.fget).returns, member.fget)
            yield f".. py:property:: {name}\n   :type: {written}\n\n{pages.indented(text)}"
        elif isinstance(member, classmethod | staticmethod):
            word = type(member).__name__
            yield f".. py:method:: {name}{signature(member.__func__, word)}\n   :{word}:\n\n{pages.indented(text)}"
        elif inspect.isfunction(member):
            yield f".. py:method:: {name}{signature(member, 'method')}\n\n{pages.indented(text)}"


# Fields of structs: unit, meaning, range and default from their declarations, or the comment behind them.


def fields(kind: type) -> Iterator[str]:
    """The table of a dataclass's fields, where it has any."""
    if not dataclasses.is_dataclass(kind):
        return
    annotated = _annotated(kind)
    rows = []
    for field in dataclasses.fields(kind):
        if field.name.startswith("_"):
            continue
        written, comment = annotated.get(field.name, (str(field.type), ""))
        leaf = next((fact for fact in field.metadata.values() if isinstance(fact, Declaration)), None)
        unit, meaning = (leaf.unit, _declared(leaf)) if leaf else ("", comment)
        rows.append((f"``{field.name}``", _linked(written), unit, pages.plain(meaning)))
    if any(row[2] for row in rows):
        yield pages.table(("field", "type", "unit", "meaning"), rows, "20 20 10 50")
    elif rows:
        yield pages.table(("field", "type", "meaning"), [(row[0], row[1], row[3]) for row in rows], "20 25 55")


def _declared(leaf: Declaration) -> str:
    meaning = re.sub(r",? ?\{\} ?", " ", leaf.meaning).strip()
    parts = [meaning, leaf.about, allowed(leaf), (value := default(leaf)) and f"default {value}"]
    return "; ".join(part for part in parts if part)


def _annotated(kind: type) -> dict[str, tuple[str, str]]:
    """Types of fields as they are written, and the comments or texts that stand with them; of base classes too."""
    found: dict[str, tuple[str, str]] = {}
    for each in reversed([base for base in kind.__mro__ if dataclasses.is_dataclass(base)]):
        source = textwrap.dedent(inspect.getsource(each))
        body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
        comments = {
            token.start[0]: token.string.lstrip("# ")
            for token in tokenize.generate_tokens(StringIO(source).readline)
            if token.type == tokenize.COMMENT
        }
        for node, after in zip(body, [*body[1:], None], strict=True):
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                text = after.value.value if _is_text(after) else ""  # type: ignore[union-attr]
                comment = comments.get(node.end_lineno or 0, "")
                found[node.target.id] = annotation(node.annotation, each), text or comment
    return found


# Signatures as they are written, public types by their public names.


def signature(function: Any, kind: str = "function") -> str:
    """Parameters and result of a function: as its source has them, or as it says where it has made them itself."""
    if hasattr(function, "__signature__"):
        return _made(function)
    tree = _tree(function)
    arguments = tree.args
    first = [*arguments.posonlyargs, *arguments.args][:1] if kind in ("method", "classmethod") else []
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None and argument.annotation is not None:
            argument.annotation = _public(argument.annotation, function)
    # `self` and `cls` are not given by who calls.
    arguments.args = [argument for argument in arguments.args if argument not in first]
    result = f" -> {annotation(tree.returns, function)}" if tree.returns is not None else ""
    return f"({ast.unparse(arguments)}){result}".replace("\\", "\\\\")


def _made(function: Any) -> str:
    text = str(inspect.signature(function))
    text = re.sub(r"= <.*?>+(?=[,)])", "= ...", text)  # functions have no text
    names = {"float | numpy.ndarray": "Scalar", "numpy.ndarray": "Array", "collections.abc.": "", "typing.": ""}
    for written, shown in names.items():
        text = text.replace(written, shown)
    homes = {f"{kind.__module__}.{kind.__qualname__}": name for kind, name in _kinds().items()}
    return re.sub(r"[a-z_]\w*(?:\.\w+)+", lambda found: homes.get(found[0], found[0].rpartition(".")[2]), text)


def annotation(node: ast.expr | None, owner: Any) -> str:
    """A type as it is written, public names of it by where they are public."""
    return "" if node is None else ast.unparse(_public(node, owner))


def _public(node: ast.expr, owner: Any) -> ast.expr:
    names = vars(sys.modules[owner.__module__])

    class Names(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            thing = names.get(node.id)
            known = _kinds().get(thing) if isinstance(thing, type) else None
            return ast.parse(known, mode="eval").body if known else node

        def visit_Constant(self, node: ast.Constant) -> ast.expr:
            # A type in quotes.
            return self.visit(ast.parse(node.value, mode="eval").body) if isinstance(node.value, str) else node

        def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
            return node if getattr(node.value, "id", "") == "Literal" else self.generic_visit(node)  # type: ignore[return-value]

    return Names().visit(node)


def _kinds() -> dict[type, str]:
    """Public classes and where they are public."""
    if not _KINDS:
        for package in PACKAGES:
            names = {name: getattr(_imported(package), name) for name in public_homes(package)}
            _KINDS.update({thing: f"{package}.{name}" for name, thing in names.items() if inspect.isclass(thing)})
    return _KINDS


_KINDS: dict[type, str] = {}


def _linked(written: str) -> str:
    """A type of a field, with links to public structs."""
    known = set(_kinds().values())
    # Words stand at odd places, and what is between them at even ones.
    words = re.split(r"([\w.]+)", written)
    words[::2] = [re.sub(r"([|*])", r"\\\1", between) for between in words[::2]]
    words[1::2] = [f"\\ :py:obj:`~{word}`\\ " if word in known else word for word in words[1::2]]
    return "".join(words).removeprefix("\\ ").strip().removesuffix("\\")


def _tree(function: Any) -> ast.FunctionDef:
    return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0]  # type: ignore[return-value]


def _below(home: str, name: str) -> str:
    """The text below the assignment of a constant, in the module that it is from, or that this one imports it from."""
    body = ast.parse(inspect.getsource(importlib.import_module(home))).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.ImportFrom):
            own = [each.name for each in node.names if (each.asname or each.name) == name]
            if own:
                return _below(node.module or "", own[0])
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if name in [target.id for target in targets if isinstance(target, ast.Name)]:
            return inspect.cleandoc(after.value.value) if _is_text(after) else ""  # type: ignore[union-attr]
    return ""


def _is_text(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _imported(name: str) -> ModuleType:
    parent, _, last = name.rpartition(".")
    return getattr(importlib.import_module(parent), last) if parent else importlib.import_module(name)


def _first(module: ModuleType) -> str:
    return (inspect.getdoc(module) or "").partition("\n")[0]
