"""All fits of constants in their order, and what each would move: `make refit DATA=FOLDER [WRITE=--write]`."""

import argparse
import contextlib
import csv
import importlib
import io
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import hwspaces
from tests.evidence.harness import command, flag

ROOT = Path(hwspaces.__file__).parents[1]

MOVED = 0.005
"""Relative change from which on a constant counts as moved: files hold three to four digits."""


class Fit(NamedTuple):
    """One fit: what it moves, by which rows and by which measure."""

    words: str  # of its command; {data} is the folder of measured files
    files: tuple[str, ...]  # under hwspaces/ that hold its constants; none: it is judged, and constants moved by hand
    constants: str
    rows: str
    loss: str
    judged: str  # on rows that it has not seen
    output: bool = False  # it writes a file with -o; else it prints TOML, or rows of prices

    @property
    def name(self) -> str:
        """Module and engine, as `--only` takes it."""
        return self.words.replace(" --data {data}", "").partition(" --data")[0]


LOGS = "log ratios, linear beyond 2 sd, with log-normal priors"
LEARNED = "kernels and host times"
SILICON = "serving_fit --engine {} --gpu {} --data {{data}}/e2e/silicon_sample.csv"
HOPPER = "h100_sxm --gpu h200_sxm"
ENGINES = ("vllm", "trtllm", "sglang")
OTHERS = (("sglang", "triton"), ("vllm", "triton"), ("sglang", "cutlass"), ("vllm", "cutlass"), ("trtllm", "cutlass"))
LIBRARIES = ("pytorch", "tensorrt", "tflite", "tflite-gpu", "ncnn", "edge-tpu")

FITS = (
    Fit(
        "derated_fit --data {data}", ("efficiencies/derated.toml",), "shares, fixed times and host times",
        "vLLM's kernels on H100 and H200; then steps and serving points of dense models", LOGS,
        "every model left out in turn; `jaxroof validate requests`", True,
    ),
    *(
        Fit(
            f"learned_fit --engine {engine} --data {{data}}", (f"efficiencies/learned-{engine}.toml",), LEARNED,
            "samples of every table of the engine, all GPUs; host times on serving points of dense models", LOGS,
            "each GPU architecture left out in turn; `jaxroof validate kernels`", True,
        )
        for engine in ENGINES
    ),
    *(
        Fit(
            f"block_fit --engine {engine} --data {{data}}/kernels3", (f"efficiencies/learned-{engine}.toml",),
            "indexers and attention to listed keys", "four of five shape sites of the tables of attention blocks", LOGS,
            "the other sites, each device and each model left out in turn; `jaxroof validate kernels --only blocks`",
            True,
        )
        for engine in ENGINES
    ),
    *(
        Fit(
            f"hull_fit --engine {engine} --data {{data}}", (f"efficiencies/learned-{engine}.toml",), "spreads, hulls",
            "errors and ranges of the fitted rows", "score of intervals of 90 %", "each architecture left out", True,
        )
        for engine in ENGINES
    ),
    *(
        Fit(
            f"linear_fit --engine {engine} --data {{data}}", (f"efficiencies/learned-{engine}.toml",),
            "states, gated, window, update, streams and full: kernels of linear attention, hyper-connections, encoders",
            "300 of each device and table, one shape in five left out", LOGS,
            "the shapes left out; each architecture left out in turn; linear_layers", True,
        )
        for engine in ENGINES
    ),
    *(
        Fit(
            SILICON.format(engine, gpus), (f"efficiencies/learned-{engine}.toml",), constants,
            f"TPOT of points of {words} whose labels nothing speaks against", LOGS,
            "five folds of deployments, each model and GPU left out; `jaxroof validate serving`, saturated_throughput",
            True,
        )
        for gpus, words, constants in (
            (HOPPER, "H100 and H200", "what serving adds to lone kernels"),
            ("b200_sxm", "B200", "early_launch and tensor_memory"),
        )
        for engine in ENGINES
    ),
    *(
        Fit(
            f"other_kernels --engine {engine} --maker {maker} --data {{data}}",
            (f"efficiencies/learned-{engine}-{maker}.toml",), "kernels that do not run by default",
            "250 rows of each device, release, kernel and precision", LOGS,
            "one site of five to seven; each architecture left out in turn; `jaxroof validate kernels`", True,
        )
        for engine, maker in OTHERS
    ),
    Fit(
        "startup_logs", (), "jaxroof/memory/reserve.py; graph_bytes, logit_bytes of engines/vllm.toml",
        "figures of public start-up logs that say fitted: startup_logs.toml", "median error", "the other rows",
    ),
    Fit(
        "first_token --data {data}", (), "clients' times of sweeps/measure/validate/serving/presets.py",
        "TTFT of InferenceX's points on a grid", "median error", "each device left out in turn",
    ),
    Fit(
        "amd_fit --data {data}", ("efficiencies/learned-sglang.toml",), "wide_waves",
        "TPOT of DeepSeek-R1 on MI300X and MI355X under SGLang", LOGS,
        "each of the two devices left out in turn; ATOM: matrix", True,
    ),
    Fit(
        "eager_fit --data {data}", ("efficiencies/eager_fp32.toml",), "eager PyTorch's fp32 kernels",
        "400 products of each kind on every device, on AMD's linear layers alone", LOGS,
        "each device and every second shape left out: label_set --held-out; `jaxroof validate training`", True,
    ),
    Fit(
        "link_fit --data {data}", ("technology/links.toml",), "losses of links", "collectives in streams and graphs",
        LOGS, "every third message size and all groups of four; `jaxroof validate collectives`",
    ),
    Fit(
        "expert_exchange", ("technology/links.toml",), "low-latency expert kernels",
        "published tables of DeepEP: 8, 32 and 128 devices", LOGS,
        "16, 64 and 256 devices; kernels that forward tokens inside of nodes",
    ),
    Fit(
        "power_fit --data {data}/kernels", ("technology/processes.toml", "technology/memories.toml"), "energies",
        "four of five shapes on H200 and B200 that ran 1 s; half of ML.ENERGY's deployments on H100 and B200",
        "log ratios of W, linear beyond 15 %; power above TDP at a quarter of the weight",
        "the others, and each device left out in turn (--without NAME); `jaxroof validate power`, mlenergy",
    ),
    Fit(
        "neuron_fit --data {data}", ("technology/links.toml",), "fixed times of NeuronLink",
        "TPOT of static batches on Inferentia2 and Trainium1", "mean |log ratio|",
        "each of the two devices left out in turn",
    ),
    Fit(
        "area_fit", ("technology/packages.toml",), "areas per unit",
        "14 dies of published size in hwspaces/catalogue/silicon.toml", "squares of log ratios, again above 10 %",
        "each family of dies left out in turn: `jaxroof validate area`",
    ),
    Fit(
        "tdp_fit", ("technology/packages.toml",), "[draw.usual]",
        "published TDP of six boards that neither a slot nor a server's air limits, of no architecture of back_cast",
        "squares of log ratios with priors", "each board left out in turn; 18 limited boards",
    ),
    Fit(
        "price_fit", ("prices.csv",), "rental margin, and rows of the kind `estimate`",
        "13 accelerators that two neoclouds or more offer", "geometric mean",
        "all 23 that a neocloud offers; 8 pairs of neighbours",
    ),
    *(
        Fit(
            f"network_fit --engine {name}", (f"efficiencies/{name}.toml",), f"kernels of {name}",
            "inference of a few networks on some devices (network_rows.FITTED)", LOGS,
            "all other rows, training among them; each device and each network left out in turn", True,
        )
        for name in LIBRARIES
    ),
)  # fmt: skip
"""All fits, each after those that it begins from."""

Constants = dict[tuple[str, ...], float]
"""Path in a file -> number."""


@command(
    flag("--data", type=Path, default=Path(), metavar="DIR", help="folder of the measured files"),
    flag("--only", action="append", metavar="NAME", help="fits whose names begin so; may be given again"),
    flag("--write", action="store_true", help="put the fitted numbers into the shipped files"),
    flag("--list", action="store_true", help="print the fits and run nothing"),
)
def main(options: argparse.Namespace) -> int:
    """Run the fits and print what moved; 1 where one of them failed."""
    chosen = [one for one in FITS if not options.only or one.name.startswith(tuple(options.only))]
    failed = 0
    for one in chosen:
        if options.list:
            print(f"{one.name}\n  {one.constants}\n  rows: {one.rows}\n  loss: {one.loss}\n  judged on: {one.judged}")
            continue
        print(f"{one.name}: {one.constants}", flush=True)
        text = printed(one, options.data)
        failed += text is None
        if text is None or not one.files:
            continue
        known = 0
        for file, shipped, fitted in compared(one, text):
            moved = {path: (shipped[path], fitted[path]) for path in fitted if _moved(shipped[path], fitted[path])}
            known += len(fitted)
            for path, (old, new) in moved.items():
                change = f"{new / old - 1.0:+.1%}" if old else ""
                print(f"  {file}  {'.'.join(path):50} shipped {old:<10.4g} fitted {new:<10.4g} {change}", flush=True)
            if options.write and moved:
                path = ROOT / "hwspaces" / file
                path.write_text(with_numbers(path.read_text(), {key: new for key, (_, new) in moved.items()}))
        print(f"  {known} constants compared", flush=True)
    return int(failed > 0)


def printed(one: Fit, folder: Path) -> str | None:
    """The text of the fit's constants: what it writes, or else what it prints; None after its one line if it failed."""
    module, *words = one.words.format(data=folder).split()
    out = io.StringIO()
    with tempfile.TemporaryDirectory() as place, contextlib.redirect_stdout(out):
        path = Path(place) / "fitted.toml"
        status = importlib.import_module(f"tests.evidence.{module}").main([*words, *(("-o", str(path)) * one.output)])
        if status:
            return None
        return path.read_text() if one.output else out.getvalue()


def compared(one: Fit, text: str) -> Iterator[tuple[str, Constants, Constants]]:
    """Every file of the fit with its numbers as shipped, and those of them that the fit has."""
    for file in one.files:
        shipped_text = (ROOT / "hwspaces" / file).read_text()
        if file.endswith(".csv"):
            shipped, found = estimates(shipped_text), estimates(text)
        else:
            document = tomllib.loads(shipped_text)
            shipped, found = dict(numbers(document)), dict(numbers(tomllib.loads(toml_part(text))))
            own = one.words.split()[0]
            found = {path: value for path, value in found.items() if _is_own(document, path, own)}
        yield file, shipped, {path: value for path, value in found.items() if path in shipped}


def toml_part(text: str) -> str:
    """The tables of a text with other lines around them: from a heading to the first line that is no `key = value`."""
    if "\nformat = " in text:  # a whole file
        return text
    lines, inside = [], False
    for line in text.splitlines():
        if re.fullmatch(r"\[[\w.\-\"/]+\]", line):
            inside = True
        elif not re.match(r"[\w.]+ = ", line):
            inside = False
        if inside:
            lines.append(line)
    return "\n".join(lines)


def numbers(document: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every number of a document with its path; places in lists are numbers too."""
    for key, value in document.items():
        if isinstance(value, list):
            value = {str(place): each for place, each in enumerate(value)}
        if isinstance(value, Mapping):
            yield from numbers(value, (*path, key))
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield (*path, key), float(value)


def estimates(text: str) -> Constants:
    """USD per hour of the rows of prices that are estimates, by accelerator."""
    rows = (row for row in csv.reader(text.splitlines()) if len(row) > 4 and row[4] == "estimate")
    return {(row[0],): float(row[2]) for row in rows}


def with_numbers(text: str, changed: Constants) -> str:
    """The text of a file of constants with some numbers replaced where they stand.

    Raises:
      ValueError: one line, for a number that stands on no line of its table.
    """
    lines = text.splitlines(keepends=True)
    for path, value in changed.items():
        table: tuple[str, ...] = ()
        for place, line in enumerate(lines):
            if heading := re.fullmatch(r"\[([^\[\]]+)\]\s*(#.*)?\n?", line):
                table = tuple(quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([\w\-]+)', heading[1]))
            elif path[: len(table)] == table and (new := _with_number(line, path[len(table) :], value)) is not None:
                lines[place] = new
                break
        else:
            raise ValueError(f"{'.'.join(path)}: it stands on no line of its own; write it by hand")
    return "".join(lines)


def _with_number(line: str, path: tuple[str, ...], value: float) -> str | None:
    """A line with the number of this path in its table replaced; None where it is another line.

    It is a row of prices, `a.b = 1`, `a = { b = 1 }` or, with a place, `a.b = [1, 2]`.
    """
    if len(path) == 1 and line.startswith(f"{path[0]},") and ",estimate," in line:
        cells = line.split(",")
        return ",".join([*cells[:2], f"{value:.3g}", *cells[3:]])
    *keys, last = path or ("",)
    patterns = [rf"{re.escape('.'.join(path))} = "]
    if keys and last.isdigit():
        patterns.append(rf"{re.escape('.'.join(keys))} = \[" + r"[-+.\w]+, " * int(last))
    elif keys:
        patterns.append(rf"{re.escape('.'.join(keys))} = \{{.*?\b{re.escape(last)} = ")
    for pattern in patterns:
        if found := re.match(rf"({pattern})[-+.\w]+", line):
            return f"{found[1]}{value:.4g}{line[found.end() :]}"
    return None


def _moved(shipped: float, fitted: float) -> bool:
    return abs(fitted - shipped) > MOVED * abs(shipped)


def _is_own(document: Mapping[str, Any], path: tuple[str, ...], command: str) -> bool:
    """Whether no other fit is the source of a constant of an efficiency file."""
    table: Any = document
    for place, key in enumerate(path[:-1]):
        table = table[int(key)] if isinstance(table, list) else table.get(key, {})
        if not isinstance(table, Mapping):
            break
        field = path[place + 1]
        for name, source in table.get("sources", {}).items():
            if field.startswith(name) and "tests.evidence." in str(source):
                return f"tests.evidence.{command}" in str(source)
    return True


if __name__ == "__main__":
    sys.exit(main())
