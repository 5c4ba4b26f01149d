"""The glossary defines what answers print, and no private word of the project is printed."""

import ast
import pathlib
import re
from collections.abc import Iterator

import pytest

import jaxroof
from hwspaces import PRECISIONS
from jaxroof.deployment import DEGREES
from sweeps.ask.leaves import leaves
from sweeps.ask.names import VARIABLES

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reference" / "glossary.md").read_text(encoding="utf-8")
HEADS = re.findall(r"^\*\*([^*]+)\*\*([^:]*(?:\n[^:]*)?):", PAGE, re.M)
TERMS = {name.strip("` ").lower() for head, more in HEADS for name in re.split(r"[,(]|\)", f"{head},{more}") if name}

PLAIN = "at area best cost end good hour left load max mean per rate run time unit use wait"
"""Short parts of names of variables that are words of everyday English."""

ABBREVIATION = re.compile(r"\b[A-Za-z]*[A-Z][A-Za-z]*[A-Z][A-Za-z]*\d*\b")

KNOWN = {
    *("FLOP TFLOP TF GB GiB TB MHz MWh kWh US USD SI ID CO2 GPU CPU CUDA LLM ETA").split(),  # units, everyday words
    *("JSON CSV TOML CF netCDF DOCTYPE WxH").split(),  # formats
    *("JAX HGX SXM OAM NCCL PyTorch StableHLO ServeGen TensorRT SGLang NVIDIA AMD PCIe NIC DRAM LPDDR").split(),
    *("NAME FILE METRIC CONDITION AXIS PATH VALUE TEXT KIND OUT SHARE OpAnswer PuOr TileGroup").split(),  # placeholders
}
"""Words with capitals that readers of any page of this field know, and placeholders."""

PRIVATE = {
    r"\bplaces\b": "say deployments or candidates",
    r"\boctaves?\b": "say a factor of N",
    r"\bown parts?\b": "say what the part is",
}
"""Words of the code alone -> what is said in their place."""

KEYS = {"places", "octaves", "octaves_beyond"}
"""Names of fields and keys of JSON, which stay as they are."""

FOLDERS = ("jaxroof", "hwspaces", "workloads", "sweeps")


def texts(folder: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Strings of a folder's modules that may be printed, with where they stand: all that document nothing."""
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        bodies = [node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)]
        documented = {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def test_terms_are_in_alphabetical_order_and_defined_once():
    heads = [head.strip("`").lower() for head, _ in HEADS]
    assert heads == sorted(heads) and len(set(heads)) == len(heads) > 150


def test_names_of_metrics_are_made_of_words_and_terms():
    parts = {part for name in VARIABLES for part in name.split("_") if len(part) <= 4}
    assert not parts - TERMS - set(PLAIN.split()) - {"gco2"} and "gco2" in PAGE


@pytest.mark.parametrize("folder", ["answers", "show"])
def test_abbreviations_of_answers_are_defined(folder):
    printed = dict(texts(ROOT / "sweeps" / folder))
    lacking = {where: word for where, text in printed.items() for word in _abbreviations(text)}
    assert not lacking


def test_abbreviations_of_meanings_are_defined():
    meanings = [metric.long_name for metric in VARIABLES.values()] + [leaf.meaning for leaf in leaves().values()]
    assert not {word for meaning in meanings for word in _abbreviations(meaning)}


def test_layouts_bounds_and_precisions_are_defined():
    assert not set(DEGREES) - TERMS
    assert not {word for word in (*jaxroof.BOUNDS, *PRECISIONS) if not re.search(rf"\b{word}\b", PAGE)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_private_word_is_printed(folder):
    found = [
        f"{where}: {text!r}: {instead}"
        for where, text in texts(ROOT / folder)
        for word, instead in PRIVATE.items()
        if re.search(word, text) and text not in KEYS
    ]
    assert not found


def _abbreviations(text: str) -> list[str]:
    """Words with capitals inside that neither the glossary defines nor everybody knows, a plural's s left away."""
    words = {word.removesuffix("s") for word in ABBREVIATION.findall(text)}
    return sorted(word for word in words if word not in KNOWN and word.lower() not in TERMS)
