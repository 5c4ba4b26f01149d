"""`python -m tests.fuzz`: inputs that are nearly right for every loader, and a table of what came of them."""

import argparse
import contextlib
import importlib.util
import json
import pathlib
import resource
import subprocess
import sys
import tempfile

from tests.fuzz import search
from tests.fuzz.targets import targets

QUICK = ("quantity", "leaf", "condition", "described", "pattern", "timestamp", "document", "keep", "spec")
"""Targets that take less than a tenth of a millisecond an input, or nearly; they get more of the time."""

SHARE = 5.0
"""How much more."""

MEMORY = 24 << 30
"""B of address space: an input that asks for more fails, and does not take the machine with it."""


def main() -> int:
    """Fuzz; exit status 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="in all, shared by the targets (default 60)")
    parser.add_argument("--target", action="append", help="only this one; several times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="at random even where Atheris is installed")
    parser.add_argument("--folder", help="where findings and the corpus are kept (default: nowhere)")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return _child(options)
    names = options.target or list(targets())
    with contextlib.ExitStack() as stack:
        folder = options.folder or stack.enter_context(tempfile.TemporaryDirectory())
        return _table(names, options, pathlib.Path(folder))


def _table(names: list[str], options: argparse.Namespace, folder: pathlib.Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    total, wrong = 0, 0
    print(f"{'target':<16} {'inputs':>9} {'findings':>8} {'inputs/s':>9}")
    shares = {name: SHARE if name in QUICK else 1.0 for name in names}
    for name in names:
        seconds = options.seconds * shares[name] / sum(shares.values())
        words = [sys.executable, "-m", "tests.fuzz", "--child", name, "--seconds", str(seconds)]
        words += ["--seed", str(options.seed), "--folder", str(folder), *(["--random"] if options.random else [])]
        log = folder / f"{name}.log"
        with open(log, "wb") as said:
            status = _status(words, said, 2.0 * seconds + 60.0)
        try:
            record = json.loads((folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            record = {"inputs": 0, "seconds": 1.0, "found": {}}
        if status != 0:
            record["found"][f"exit status {status}"] = [log.read_text(errors="replace")[-300:], ""]
        total, wrong = total + record["inputs"], wrong + len(record["found"])
        rate = record["inputs"] / max(record["seconds"], 1e-9)
        print(f"{name:<16} {record['inputs']:>9,} {len(record['found']):>8} {rate:>9,.0f}", flush=True)
        for place, (text, data) in record["found"].items():
            print(f"    {place}: {' '.join(text.split())[:160]}\n        {data[:160]!r}", flush=True)
    print(f"{'all':<16} {total:>9,} {wrong:>8}")
    return 1 if wrong else 0


def _status(words: list[str], said, seconds: float) -> int:
    try:
        return subprocess.run(words, stdout=said, stderr=subprocess.STDOUT, check=False, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return 124


def _child(options: argparse.Namespace) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    folder = pathlib.Path(options.folder)
    record = search.Record(folder / f"{options.child}.json")
    if options.random or importlib.util.find_spec("atheris") is None:
        search.at_random(targets()[options.child], options.seconds, record, options.seed)
        return 0
    import atheris

    with atheris.instrument_imports(include=list(search.OURS)):
        target = targets()[options.child]
        for data in target.seeds():
            search.finding(target, data)  # imports what it needs
    search.guided(target, options.seconds, record, options.seed, folder / "corpus" / options.child)
    return 0


if __name__ == "__main__":
    sys.exit(main())
