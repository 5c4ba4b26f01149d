"""Texts and special files that are made to hang, to fill the memory or to mean two things, for every loader of text."""

import json
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

from tests import trace_files
from tests.hostile.case import Case

Read = Callable[[str], Any]


def loaders() -> dict[str, tuple[str, Read]]:
    """Name of every loader of text: the name of its file, and how it is read."""
    from hwspaces import efficiency, hardware
    from sweeps.ask.spec import read as spec
    from sweeps.measure.surface_import import WantedRows, imported
    from sweeps.measure.validate.measured_csv import rows
    from sweeps.serving.rows import row_of
    from sweeps.studies.optimize.spec import read as design
    from sweeps.studies.scenarios.suite import scenario
    from workloads import model
    from workloads.traces import read_measured, read_trace

    def trace(format: str) -> Read:
        return lambda path: read_trace(path, format)

    return {
        "specification": ("own.toml", spec),
        "optimisation": ("own.toml", design),
        "accelerator": ("own.toml", hardware),
        "accelerator, BLIS": ("own.json", hardware),
        "efficiency": ("own.toml", efficiency),
        "scenario": ("own.toml", scenario),
        "config": ("config.json", model),
        "quantisation": ("hf_quant_config.json", lambda path: model(path.replace("hf_quant_", ""))),
        "measured rows": ("own.csv", lambda path: rows(path, ("a",))),
        "measured kernels, csv": ("gemm.csv", lambda path: imported([pathlib.Path(path)], "infersim", WantedRows())),
        "measured run": ("own.json", read_measured),
        "compared rows": ("own.json", row_of),
        "trace, azure": ("own.csv", trace("azure")),
        "trace, splitwise": ("own.csv", trace("splitwise")),
        "trace, burstgpt": ("own.csv", trace("burstgpt")),
        "trace, blis": ("own.csv", trace("blis")),
        "trace, servegen": ("chunk-1-trace.csv", trace("servegen")),
        "trace, mooncake": ("own.jsonl", trace("mooncake")),
        "trace, llmservingsim": ("own.jsonl", trace("llmservingsim")),
        "trace, tracelab": ("own.jsonl", trace("tracelab")),
        "trace, vllm": ("own.json", trace("vllm")),
        "trace, sglang": ("own.jsonl", trace("sglang")),
        "trace, guidellm": ("own.json", trace("guidellm")),
        "trace, inference-perf": ("own.yaml", trace("inference-perf")),
        "trace, any": ("own.json", trace("auto")),
    }


def cases() -> Iterator[Case]:
    """Every loader with every file that no loader reads, and texts of its own language."""
    for name, (file, read) in loaders().items():
        for attack, make in FILES.items():
            yield Case(f"{name}: {attack}", name, file, make, read, refused=True)
        language = file.rpartition(".")[2]
        for attack, text in TEXTS[language].items():
            yield Case(f"{name}: {attack}", name, file, written(text), read, refused=attack not in MAY_BE_READ)
    for name, (attack, text) in OWN:
        file, read = loaders()[name]
        yield Case(f"{name}: {attack}", name, file, written(text), read, refused=attack not in MAY_BE_READ)


def written(text: str | bytes) -> Callable[[pathlib.Path], None]:
    """What writes a text, beside files that belong to it."""

    def make(path: pathlib.Path) -> None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        if path.suffix == ".csv":
            path.with_suffix(".yaml").write_text(trace_files.BLIS_HEADER)
        if path.name == "hf_quant_config.json":
            path.with_name("config.json").write_text(json.dumps(LLAMA))

    return make


def _special(make: Callable[[pathlib.Path], Any]) -> Callable[[pathlib.Path], None]:
    def made(path: pathlib.Path) -> None:
        written(b"")(path)
        path.unlink()
        make(path)

    return made


def _sparse(path: pathlib.Path) -> None:
    with open(path, "wb") as file:
        file.truncate(3 << 30)


FILES = {
    "a pipe": _special(os.mkfifo),
    "an endless device": _special(lambda path: path.symlink_to("/dev/zero")),
    "a folder": _special(lambda path: path.mkdir()),
    "a link to itself": _special(lambda path: path.symlink_to(path)),
    "3 GB of nothing": _sparse,
    "UTF-16": written('{"a": 1}\n'.encode("utf-16")),
    "zero bytes": written(b'{"a"\x00: 1}\n\x00\n'),
    "no UTF-8": written(b"\xff\xfea = \xc3\x28\n"[2:]),
}
"""What is no text, and read by nobody."""

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100,
    "intermediate_size": 128, "torch_dtype": "bfloat16", "num_key_value_heads": 4,
}  # fmt: skip

_KEYS = "".join(f"k{i} = 1\n" for i in range(40_000))
TEXTS: dict[str, dict[str, str]] = {
    "toml": {
        "a key of 40,000 parts": "a" + ".a" * 40_000 + " = 1",
        "a quoted key of 40,000 parts": "a" + '."a"' * 40_000 + " = 1",
        "a table's name of 40,000 parts": f"[a{'.a' * 40_000}]",
        "lists 50,000 deep": f"a = {'[' * 50_000}",
        "tables 40 deep": f"a = {'{a=' * 40}1{'}' * 40}",
        "9,990 digits": f"a = {'9' * 9_990}",
        "10^400": f"a = {10**400}",
        "a float of 100,000 digits": f"a = 1.{'1' * 100_000}",
        "100,000 values": f"a = [{'1,' * 99_000}]",
        "400,000 values": f"a = [{'1,' * 200_000}]",
        "40,000 keys": _KEYS,
        "a key with escape sequences": '"\\u001b[2J\\u001b]0;x" = 1',
        "a key twice": "a = 1\na = 2",
        "a text that does not end": 'a = """' + '\\"' * 200_000,
        "quotes alone": '"' * 400_000,
        "dots alone": "." * 400_000,
        "line ends alone": "\n" * 500_000,
        "5,000 tables of a list": "[[a]]\n[a.b]\n" * 5_000,
    },
    "json": {
        "lists 100,000 deep": "[" * 100_000,
        "objects 100,000 deep": '{"a":' * 100_000,
        "lists 500 deep": f'{{"a": {"[" * 500}{"]" * 500}}}',
        "a key twice": '{"a": 1, "b": {}, "a": 2}',
        "a key twice inside": '{"a": {"b": 1, "b": 2}}',
        "9,990 digits": f'{{"a": {"9" * 9_990}}}',
        "exponent of 20 digits": '{"a": 1e99999999999999999999}',
        "a million empty lists": f'{{"a": [{"[]," * 1_000_000}[]]}}',
        "a key with escape sequences": '{"\\u001b[2J\\u001b]0;x": 1}',
        "a text that does not end": '{"a": "' + '\\"' * 500_000,
        "half a surrogate": '{"\\ud800": "\\ud800"}',
        "no value": "",
        "a mark before nothing": "\ufeff",
    },
    "csv": {
        "100,000 columns": ",".join(f"c{i}" for i in range(100_000)),
        "a column twice": "a,a\n1,2\n",
        "a row of a million values": "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "1," * 1_000_000,
        "a quote that does not end": 'a,b\n"' + "x\n" * 1_000_000,
        "a line of a million characters": "a,b\n" + "x" * 1_000_000,
        "line ends alone": "\n" * 1_000_000,
        "nothing": "",
        "a header with escape sequences": "\x1b[2J,\x1b]0;x\n1,2\n",
        "quoted line ends in a header": 'a,"b\nc"\n1,2\n',
    },
    "yaml": {
        "aliases of aliases": "a: &a [1, 1]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n",
        "lists 5,000 deep": "[" * 5_000,
        "lists in lines 2,000 deep": "- " * 2_000,
        "a tag": "a: !!python/object/apply:os.system ['true']\n",
        "a key twice": "a: 1\na: 2\n",
        "9,000 keys": "".join(f"k{i}:\n" for i in range(9_000)),
        "a list as a key": "? [a, b]\n: 1\n",
        "a number of 9,000 sexagesimal places": "a: 1" + ":1" * 9_000 + ".5\n",
        "a day that is none": "a: 2024-02-31\n",
        "9,990 digits": "a: " + "9" * 9_990 + "\n",
        "a value of escape sequences": 'load: "\\e[2J"\n',
        "a megabyte": "a: b\n" * 250_000,
    },
}  # fmt: skip
TEXTS["jsonl"] = TEXTS["json"] | {"a line without an end": "1" * 5_000_000}

MAY_BE_READ = ("a float of 100,000 digits", "line ends alone", "a pattern of repeated groups", "wildcards of 60 stars")
MAY_BE_READ += ("quoted line ends in a header",)  # which is one word then
MAY_BE_READ += ("a mark before a config", "300 patterns with stars", "40 alternatives, repeated")


def _config(names: list[str], **more: Any) -> str:
    return json.dumps(
        {**LLAMA, **more, "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": names}}
    )


DEEP_GROUPS = {"quant_algo": "FP8", "exclude_modules": ["re:(" * 900]}
SPEC = 'hardware = "B200"\nmodel = "Llama-3.1-8B"\n[axes."deployment.tp"]\n'
TOKENS = '{"timestamp": 0, "input_length": 1e300, "output_length": 1, "hash_ids": []}'

OWN: list[tuple[str, tuple[str, str]]] = [
    ("config", ("a pattern of repeated groups", _config(["re:(([a-z._0-9])+)+!"]))),
    ("config", ("40 alternatives, repeated", _config(["re:(" + "|".join(["a?"] * 40) + ")*b"]))),
    ("config", ("a repetition of repetitions", _config(["re:(((a{999}){999}){999}){999}"]))),
    ("config", ("empty groups, repeated", _config(["re:((((){1000}){1000}){1000}){1000}"]))),
    ("config", ("a back-reference", _config([r"re:(a*)*\1b"]))),
    ("config", ("groups 1,000 deep", _config([f"re:{'(' * 1000}{')' * 1000}"]))),
    ("config", ("wildcards of 60 stars", _config(["*a" * 60 + "b"]))),
    ("config", ("300 patterns with stars", _config([f"re:.*{i}.*x.*" for i in range(300)]))),
    ("config", ("100,000 wildcards", _config([f"*x{i}*y*" for i in range(100_000)], num_hidden_layers=1_000))),
    ("config", ("a million layers", _config([], num_hidden_layers=10**6))),
    ("config", ("a list 30,000 times", _config([], layer_types=["full_attention"] * 30_000))),
    ("config", ("a mark before a config", f"\ufeff{json.dumps(LLAMA)}")),
    ("config", ("a key of its own twice", json.dumps(LLAMA)[:-1] + ', "hidden_size": 128}')),
    ("quantisation", ("groups in groups", json.dumps({"quantization": DEEP_GROUPS}))),
    ("specification", ("10^12 points", f"{SPEC}from = 1\nto = 2\nn = 1000000000000\n")),
    ("accelerator", ("a name of 100,000 characters", f'[accelerator.A]\nbase = "{"x" * 100_000}"\n')),
    ("accelerator", ("3,000 accelerators", "".join(f"[accelerator.a{i}]\n" for i in range(3_000)))),
    ("trace, azure", ("an offset of 99 hours", f"{trace_files.AZURE}2024-05-10 00:00:00+99:99,1,1\n")),
    ("trace, azure", ("an offset of 60 minutes", f"{trace_files.AZURE}2024-05-10 00:00:00+01:60,1,1\n")),
    ("trace, azure", ("30 February", f"{trace_files.AZURE}2024-02-30 00:00:00,1,1\n")),
    ("trace, azure", ("the 24th hour", f"{trace_files.AZURE}2024-02-20 24:00:01,1,1\n")),
    ("trace, azure", ("tokens of 9,990 digits", f"{trace_files.AZURE}2024-02-20 00:00:00,{'9' * 9_990},1\n")),
    ("trace, mooncake", ("10^300 tokens", TOKENS)),
]  # fmt: skip
"""Loader, attack and text: what only one language or loader understands."""
