"""JSON Schemas for editors: every file of the distribution keeps them, and mistakes do not."""

import json
import pathlib
import tomllib

import pytest

from hwspaces.accelerators.described import TEMPLATE
from hwspaces.accelerators.json_schema import schema as hardware_schema
from hwspaces.accelerators.schema import TABLES
from hwspaces.quantities.json_schema import _QUANTITIES, DRAFT
from hwspaces.quantities.units import TEXT_UNITS
from sweeps.ask.json_schema import sweep_schema, traffic_schema
from sweeps.ask.spec import KEYS
from sweeps.cli import main
from sweeps.studies.fleet.json_schema import fleet_schema
from sweeps.studies.optimize.json_schema import optimum_schema
from tests.hwspaces.test_described import WRONG
from tests.pages.page import PAGES, blocks

jsonschema = pytest.importorskip("jsonschema")
Validator = getattr(jsonschema, "Draft202012Validator", None) or jsonschema.Draft7Validator
"""What checks files; releases before 4 know an earlier draft, by which the same mistakes are found."""

ROOT = pathlib.Path(__file__).parents[2]
SCHEMAS = {
    "hardware": hardware_schema,
    "sweep": sweep_schema,
    "optimize": optimum_schema,
    "fleet": fleet_schema,
    "serve": traffic_schema,
}
"""Verb -> what its --schema prints."""

OF_SPECS = {"chat": "serve", "cheapest": "optimize", "fleet": "fleet"}
"""Specifications of the distribution that are not of a sweep -> verb."""

HARDWARE = sorted(
    path
    for folder in ("catalogue", "technology")
    for path in (ROOT / "hwspaces" / folder).glob("*.toml")
    if path.name != "laws.toml"  # of design spaces
)
SPECS = sorted([*(ROOT / "sweeps" / "specs").glob("*.toml"), *(ROOT / "workloads" / "scenarios").glob("*.toml")])


@pytest.fixture(scope="module")
def validators() -> dict:
    """What checks a file, by verb."""
    return {verb: Validator(schema()) for verb, schema in SCHEMAS.items()}


def wrong(validator, content: dict) -> list[str]:
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in validator.iter_errors(content)]


@pytest.mark.parametrize("verb", SCHEMAS)
def test_a_verb_prints_a_valid_schema(verb, capsys):
    with pytest.raises(SystemExit) as end:
        main([verb, "--schema"])
    assert not end.value.code
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads(json.dumps(SCHEMAS[verb]()))
    assert printed["$schema"] == DRAFT
    Validator.check_schema(printed)


@pytest.mark.parametrize("path", HARDWARE, ids=[path.name for path in HARDWARE])
def test_files_of_the_catalogue_keep_their_schema(path, validators):
    assert wrong(validators["hardware"], tomllib.loads(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize("path", SPECS, ids=[path.name for path in SPECS])
def test_specifications_keep_their_schema(path, validators):
    own = validators[OF_SPECS.get(path.stem, "sweep")]
    assert wrong(own, tomllib.loads(path.read_text(encoding="utf-8"))) == []


def test_files_of_the_guide_keep_a_schema(validators):
    """Chips, and what sweeps and optimisations read, but for files that show what is refused."""
    found = [block for page in PAGES for block in blocks(page)]
    refused = " ".join(command for block in found if block.refused for command in block.commands)
    kinds = []
    for block in found:
        if block.kind != "file" or not block.file.endswith(".toml") or block.file in refused:
            continue
        content = tomllib.loads(block.text)
        kind = "hardware" if "peak" in content or "accelerator" in content else None
        kind = "optimize" if "optimize" in content else "sweep" if "hardware" in content else kind
        if kind is not None:
            assert wrong(validators[kind], content) == [], block.file
            kinds.append(kind)
    assert {"hardware", "sweep"} <= set(kinds)


def test_the_template_keeps_the_schema_and_mistakes_do_not(validators):
    assert wrong(validators["hardware"], tomllib.loads(TEMPLATE)) == []
    places = [line.partition(":")[0] for line in wrong(validators["hardware"], tomllib.loads(WRONG))]
    assert set(places) == {"", "class", "peak", "peak.bf16", "memory", "network", "power", "cores", "sram", "year"}


@pytest.mark.parametrize(
    ("verb", "text", "place"),
    [
        ("sweep", 'model = "A"\nhardwar = "B"', ""),
        ("sweep", 'model = "A"\n[axes]\n"hardware.cores.coun" = [1, 2]', "axes"),
        ("sweep", 'model = "A"\n[axes]\n"hardware.cores.count" = { from = 1, t = 2 }', "axes.hardware.cores.count"),
        ("sweep", 'model = "A"\n[set]\n"hardware.memory.hbm.bandwidth" = "8 GB"', "set.hardware.memory.hbm.bandwidth"),
        ("sweep", 'model = "A"\n[deployment]\noverlap = "gem"', "deployment.overlap"),
        ("optimize", 'model = "A"\n[optimize]\nminimise = "tpot"', "optimize"),
        ("fleet", '[classes.a]\nmodel = "A"\nisl = 1\nosl = 1\nslo = "tpot=1s"', "classes.a"),
        ("serve", "[chat]\nshare = 1\nisl = 3", "chat"),
    ],
)
def test_mistakes_are_found(verb, text, place, validators):
    assert {line.partition(":")[0] for line in wrong(validators[verb], tomllib.loads(text))} == {place}


def test_schemas_have_what_is_declared():
    accelerator = hardware_schema()["properties"]["accelerator"]["additionalProperties"]["properties"]
    assert {path.partition(".")[0] for path in TABLES if path} <= accelerator.keys()
    assert sweep_schema()["properties"].keys() == KEYS.keys()
    assert len(_QUANTITIES) == 2 * (len(TEXT_UNITS) - 1), "units have names of their own"


@pytest.mark.parametrize("text", ["8 TB/s", "3.35TB/s", " 600 GB/s ", "1e12 B/s", "64 GiB/s"])
def test_quantities_are_those_that_are_read(text, validators):
    chip = {"peak": "1 PFLOP/s", "memory": {"capacity": "96 GB", "bandwidth": text}}
    assert wrong(validators["hardware"], chip) == []
    chip["memory"]["bandwidth"] = text.replace("B/s", "B")
    assert len(wrong(validators["hardware"], chip)) == 1
