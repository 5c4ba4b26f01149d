"""Every verb's files: no flag that names one escapes the rules, and the rules come before the verb."""

import argparse
import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hwspaces.files.output import KINDS
from sweeps.cli import main
from sweeps.cli.outputs import declared_outputs, read_files, require_outputs
from sweeps.cli.parser import Parser
from sweeps.cli.verbs import VERBS

ROOT = Path(__file__).parents[2]

WRITERS = {
    "hwspaces/files/unfinished.py",  # makes every temporary file and gives it its name
    "hwspaces/files/output.py",  # decides
    "hwspaces/performance/surface.py",
    "sweeps/answers/tables.py",
    "sweeps/data/store.py",
    "sweeps/show/style.py",
    "sweeps/serving/trace_events.py",
    "sweeps/cli/printing.py",  # to nowhere, in place of a stream that is closed
    "sweeps/studies/export/folder.py",
    "sweeps/data/shards/encode.py",  # into files that `unfinished` made, of a folder that is locked
    "sweeps/data/shards/folder.py",
    "sweeps/data/shards/manifest.py",
}
"""Modules that write, each by `replacing` or in a folder of shards."""

SPEC = """
hardware = "H100-SXM"
model = "Llama-3.1-8B"
workload = { batch = [1, 2], isl = 128, osl = 16 }
output = { variables = ["tpot"] }
"""


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every verb's parser, and those of its kinds and actions."""
    found = {}

    def add(name: str, parser: argparse.ArgumentParser) -> None:
        found[name] = parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for word, inner in action.choices.items():
                    add(f"{name} {word}", inner)

    for verb in VERBS:
        parser = Parser(prog=verb)
        importlib.import_module(f"sweeps.cli.{verb}").arguments(parser)
        add(verb, parser)
    return found


PARSERS = parsers()

OUTPUTS = [(name, each) for name, parser in PARSERS.items() for each in declared_outputs(parser)]


def parsed(name: str, **given) -> argparse.Namespace:
    """Flags of a verb with none given but those."""
    parser = PARSERS[name]
    values = {action.dest: action.default for action in parser._actions if action.dest != "help"}
    return argparse.Namespace(**{**values, **parser._defaults, "verb": name, **given})


def file_of(each, folder: Path, kind: int = 0) -> Path:
    return folder / f"x{KINDS[each.kinds[kind]].suffixes[0]}"


def test_every_verb_that_writes_is_known():
    flags = sorted((name, each.flag) for name, each in OUTPUTS)
    assert flags == [
        ("bench", "--hardware-out"),
        ("bench", "-o"),
        ("calibrate", "--plot"),
        ("calibrate", "-o"),
        ("capacity", "--plot"),
        ("capacity", "-o"),
        ("collective", "-o"),
        ("compare", "-o"),
        ("disaggregate", "-o"),
        ("emit", "-o"),
        ("export chakra", "-o"),
        ("export chakra train", "-o"),
        ("export perfetto", "-o"),
        ("export perfetto train", "-o"),
        ("export timeloop", "-o"),
        ("export vidur", "-o"),
        ("fleet", "-o"),
        ("map", "--plot"),
        ("map", "-o"),
        ("merge", "-o"),
        ("optimize", "--plot"),
        ("optimize", "-o"),
        ("plot", "-o"),
        ("price", "--plot"),
        ("price", "-o"),
        ("query", "-o"),
        ("report", "-o"),
        ("scenario", "-o"),
        ("sensitivity", "--plot"),
        ("sensitivity", "-o"),
        ("serve", "--chrome-trace"),
        ("serve", "--plot"),
        ("serve", "-o"),
        ("surface import", "-o"),
        ("sweep", "-o"),
        ("trace", "-o"),
        ("validate area", "--plots"),
        ("validate collectives", "--plots"),
        ("validate kernels", "--plots"),
        ("validate power", "--plots"),
        ("validate serving", "--plots"),
    ]


@pytest.mark.parametrize("name", PARSERS)
def test_flags_that_sound_like_files_to_write_are_declared_as_such(name):
    declared = {each.dest for each in declared_outputs(PARSERS[name])}
    for action in PARSERS[name]._actions:
        words = {"output", "plot", "plots", "out", "save", "write"}
        if words & {*action.dest.split("_")} or "-o" in action.option_strings:
            assert action.dest in declared
    assert ("--force" in PARSERS[name].flags()) == bool(declared)


@pytest.mark.parametrize(("name", "each"), OUTPUTS, ids=lambda case: getattr(case, "flag", case))
def test_no_output_is_what_another_flag_reads(name, each, tmp_path):
    """Any flag that takes text may name a file: each in turn names the output, by itself and inside other text."""
    if each.folder == "pictures":
        (tmp_path / "x").write_text("precious")
        with pytest.raises(ValueError, match="is a file; give the name of a folder"):
            require_outputs(parsed(name, **{each.dest: str(tmp_path / "x")}))
        return
    file = file_of(each, tmp_path)
    file.write_text("precious")
    carriers = [
        action
        for action in PARSERS[name]._actions
        if action.dest not in {"help", "force", *(one.dest for one in declared_outputs(PARSERS[name]))}
        and action.nargs != 0
        and not isinstance(action, argparse._SubParsersAction)
        and not action.choices
    ]
    assert carriers
    for action in carriers:
        for text in (str(file), f"name={file}", f"H100-SXM,{file}", f"surface:{file}", f"{file}#2"):
            value = [text] if action.nargs in ("*", "+") or isinstance(action.default, list) else text
            with pytest.raises(ValueError, match=f"{each.flag} .* is .*, which is read: give another name"):
                require_outputs(parsed(name, **{each.dest: str(file), action.dest: value, "force": True}))


FILES = [case for case in OUTPUTS if case[1].folder != "pictures"]


@pytest.mark.parametrize(("name", "each"), FILES, ids=lambda case: getattr(case, "flag", case))
def test_no_output_is_a_file_of_somebody_else_or_of_another_ending(name, each, tmp_path):
    for kind in range(len(each.kinds)):
        file = file_of(each, tmp_path, kind)
        file.write_text("precious")
        with pytest.raises(ValueError, match=f"{each.flag} .* is there already, and jaxroof did not write it"):
            require_outputs(parsed(name, **{each.dest: str(file)}))
        require_outputs(parsed(name, **{each.dest: str(file), "force": True}))
    with pytest.raises(ValueError, match=f"{each.flag} .*x.xlsx must end in "):
        require_outputs(parsed(name, **{each.dest: str(tmp_path / "x.xlsx")}))
    with pytest.raises(ValueError, match="there is no folder"):
        require_outputs(parsed(name, **{each.dest: str(tmp_path / "none" / file.name)}))


def test_what_a_specification_names_is_read(tmp_path):
    (tmp_path / "mine.toml").write_text("")
    (tmp_path / "spec.toml").write_text(f'hardware = "{tmp_path}/mine.toml"')
    named = read_files(parsed("sweep", spec=str(tmp_path / "spec.toml"), output="x.nc", keep="pareto"))
    assert sorted(named) == [str(tmp_path / "mine.toml"), str(tmp_path / "spec.toml")]


def test_force_is_for_files_that_are_written(tmp_path):
    with pytest.raises(ValueError, match="--force is for files that are written, and none is: give -o"):
        require_outputs(parsed("query", sweep="x.nc", force=True))
    with pytest.raises(ValueError, match="--force is for files; no folder with files of others is written to"):
        require_outputs(parsed("sweep", spec="x.toml", output=f"{tmp_path}/", force=True))
    options = parsed("plot", file=f"{tmp_path}/x.nc", force=True)
    require_outputs(options)
    assert options.output == f"{tmp_path}/x.png"


@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "IN", "-o", "IN"),
        ("sweep", "IN", "-o", "notes.csv"),
        ("sweep", "IN", "-o", "theirs.nc"),
        ("query", "theirs.nc", "-o", "theirs.nc"),
        ("merge", "FOLDER", "-o", "theirs.nc"),
        ("plot", "theirs.nc", "-o", "theirs.png"),
        ("step", "--hardware", "IN", "--force"),
    ],
)
def test_the_command_refuses_before_the_verb_begins(words, tmp_path, monkeypatch, capsys):
    def run(_):
        raise AssertionError("it has begun")

    monkeypatch.chdir(tmp_path)
    for name in ("IN", "theirs.nc", "theirs.png"):
        (tmp_path / name).write_text("precious")
    module = importlib.import_module(f"sweeps.cli.{words[0]}")
    monkeypatch.setattr(module, "run", run)
    assert main(list(words)) == 2
    out, err = capsys.readouterr()
    assert not out and err.startswith(f"jaxroof {words[0]}: ") and err.count("\n") == 1
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == dict.fromkeys(
        ("IN", "theirs.nc", "theirs.png"), "precious"
    )


def test_its_own_files_are_replaced_by_the_same_command(tmp_path, monkeypatch, capsys):
    """Of each kind that is made without much computing."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.toml").write_text(SPEC)
    commands = [
        "sweep spec.toml -o out.nc",
        "query out.nc -o rows.nc",
        "plot out.nc",
        "plot out.nc -o out.svg",
        "trace --rate 8 --isl 100 --osl 10 --requests 20 -o t.svg",
    ]
    for command in commands + commands:
        assert main(command.split()) == 0, capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["out.nc", "out.png", "out.svg", "rows.nc", "spec.toml", "t.svg"]
    before = (tmp_path / "out.nc").read_bytes()
    assert main("query out.nc -o out.nc".split()) == 2 and main("sweep spec.toml -o spec.toml".split()) == 2
    assert (tmp_path / "out.nc").read_bytes() == before and (tmp_path / "spec.toml").read_text() == SPEC


def test_texts_that_are_written_are_known_again(tmp_path):
    """The heads of the other kinds, as their writers make them."""
    import hwspaces
    from hwspaces.performance.efficiency_file import efficiency_text

    heads = {
        "rows": "rank,hardware,devices,layout,batch,ttft\n1,H100-SXM,1,tp=1,8,0.1\n",
        "timeline": '{"otherData": {"source": "jaxroof 1.0"}, "displayTimeUnit": "ms", "traceEvents": [\n',
        "problem": "# Timeloop problem, jaxroof 0.1.0: Llama-3.1-8B, prefill of 1 x 8 tokens\n",
        "launch": "# jaxroof 0.1.0: vLLM 0.33.0, flags of vllm/config/\n",
        "hardware": "# NVIDIA H100, measured by jaxroof bench on 2026-11-01.\n\n[accelerator.nvidia_h100]\n",
    }
    entry = hwspaces.efficiency("half")
    words = {"engine": "vLLM", "date": "2026-11-01", "refit": "jaxroof calibrate --measured a.json", "errors": "none"}
    heads["efficiency"] = efficiency_text(entry.efficiency, entry.sources, words, ["A note."], "One server.")
    for name, text in heads.items():
        path = tmp_path / name
        path.write_text(text)
        assert [kind for kind in KINDS if KINDS[kind].recognised(path)] == [name]
    for file in (ROOT / "hwspaces" / "efficiencies").glob("learned*.toml"):
        assert KINDS["efficiency"].recognised(file)


def test_a_full_disk_is_one_line(tmp_path):
    """A limit of the size of files stands for it: the library says neither."""
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "out.nc").write_text("")
    script = (
        "import resource, sys\nfrom sweeps.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))\nsys.exit(main())"
    )
    words = [sys.executable, "-c", script, "sweep", "spec.toml", "-o", "out.nc"]
    found = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    lines = [line for line in found.stderr.splitlines() if not line.endswith(" s left")]
    assert found.returncode == 2 and len(lines) == 1
    assert lines[0].startswith("jaxroof sweep: spec.toml: out.nc cannot be written: File too large; ")
    assert lines[0].endswith("; a file may have at most 5,000 bytes (ulimit -f)")
    assert sorted(os.listdir(tmp_path)) == ["out.nc", "spec.toml"] and (tmp_path / "out.nc").stat().st_size == 0


def writes(node: ast.Call) -> bool:
    """True for a call that makes or changes a file."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in ("write_text", "write_bytes", "to_netcdf", "to_csv", "savefig", "mkstemp", "NamedTemporaryFile"):
        return True
    texts = [each.value for each in (*node.args, *(word.value for word in node.keywords)) if hasattr(each, "value")]
    if called == "open":
        return any(isinstance(text, str) and set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)
    if called == "Dataset":
        return any(text in ("w", "a", "r+", "x") for text in texts if isinstance(text, str))
    return called in ("replace", "rename", "truncate") and getattr(getattr(node.func, "value", None), "id", "") == "os"


def test_nothing_else_writes_files():
    found = set()
    for package in ("jaxroof", "hwspaces", "workloads", "sweeps"):
        for path in (ROOT / package).rglob("*.py"):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            if any(isinstance(node, ast.Call) and writes(node) for node in ast.walk(tree)):
                found.add(str(path.relative_to(ROOT)))
    assert found <= WRITERS, f"these write files without hwspaces.files.output: {sorted(found - WRITERS)}"
