"""Golden values of all families: `python -m tests.golden.net --take`, and `--check` of another tree against them."""

import argparse
import collections
import gzip
import importlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.quick_compilation import quick_compilation

VALUES = Path(__file__).parent / "values.json.gz"

TOLERANCE = 1e-12
"""Relative difference of two numbers up to which they are the same."""

FLOORS = {"slopes": 1e-3}
"""Family -> size below which a number's difference is taken relative to this: of elasticities, which cancel to zero."""

FAMILIES = (
    "catalogue",
    "collectives",
    "deployments",
    "single",
    "efficiencies",
    "production",
    "datasets",
    "training",
    "serving",
    "optima",
    "comparisons",
    "slopes",
    "scenarios",
)
"""Modules of this package, each with `questions()`: names, and what answers each."""


def surroundings(optimised: bool = False) -> None:
    """Settings of the process, before JAX begins: quick compilation, unless optimised programs are asked, and a quiet
    log."""
    if not optimised:
        quick_compilation()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import gc

    gc.set_threshold(200_000, 20, 100)  # tracing makes many objects and few cycles


def answers(family: str, wanted: Callable[[str], bool]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names of a family's questions that are `wanted` and their answers, one by one."""
    for name, question in importlib.import_module(f"tests.golden.{family}").questions():
        if not wanted(name):
            continue
        begun, clock = time.perf_counter(), time.process_time()
        try:
            found = question()
        except Exception as error:  # a defect is an answer, too: another tree must have the same
            found = {"defect": f"{type(error).__name__}: {error}"[:300]}
        spent = f"{time.perf_counter() - begun:6.1f} s, of CPU {time.process_time() - clock:6.1f} s"
        print(f"{family:13}{spent}  {len(found):5} values  {name}", file=sys.stderr, flush=True)
        yield name, found


def read(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Values of a file by family, question and place."""
    if not path.exists():
        return {}
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def written(path: Path, values: Mapping[str, Any]) -> None:
    """Write values: floats by `repr`, which gives the same number back; the same values give the same bytes."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":")).encode()
    path.write_bytes(gzip.compress(text, 9, mtime=0) if path.suffix == ".gz" else text)


def difference(one: float, other: float, floor: float = 0.0) -> float:
    """Relative difference of two numbers, relative to at least `floor`."""
    return 0.0 if one == other else abs(one - other) / max(abs(one), abs(other), floor)


def is_number(value: Any) -> bool:
    """True for an int or a float, and for no bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def compared(
    kept: Mapping[str, Any], found: Mapping[str, Any], floor: float = 0.0
) -> tuple[list[tuple[float, str]], list[str], int]:
    """What differs between two answers of a family.

    Returns:
      Numbers that differ, as relative difference and text; texts, places and questions that differ; how many numbers
      were compared.
    """
    numbers, others, n = [], [], 0
    for name in sorted({*kept, *found}):
        if name not in kept or name not in found:
            others.append(f"{name}: {'is new' if name in found else 'is missing'}")
            continue
        for place in sorted({*kept[name], *found[name]}):
            where = f"{name} | {place}"
            if place not in kept[name] or place not in found[name]:
                value = found[name].get(place, kept[name].get(place))
                others.append(f"{where}: {'is new' if place in found[name] else 'is missing'} ({value!r})"[:300])
                continue
            one, other = kept[name][place], found[name][place]
            if is_number(one) and is_number(other):
                n += 1
                if one != other:
                    numbers.append((difference(one, other, floor), f"{where}: {one!r} -> {other!r}"))
            elif one != other:
                others.append(f"{where}: {one!r} -> {other!r}"[:400])
    return numbers, others, n


def checked(
    kept: Mapping[str, Any],
    found: Mapping[str, Any],
    family: str,
    shown: int = 20,
    words: bool = True,
    tolerance: float = TOLERANCE,
) -> bool:
    """Print how the answers of a family compare; True where they are the same.

    Args:
      kept, found: answers by question, as they were and as they are.
      family: name of the family.
      shown: differences that are printed.
      words: texts and places must be the same too.
      tolerance: relative difference of two numbers up to which they are the same.
    """
    numbers, others, n = compared(kept, found, FLOORS.get(family, 0.0))
    largest = max((size for size, _ in numbers), default=0.0)
    beyond = sorted(((size, text) for size, text in numbers if size > tolerance), reverse=True)
    print(
        f"{family:13}{len(found):4} questions {n:7} numbers, {len(numbers)} not bit for bit, largest difference "
        f"{largest:.2g}, {len(beyond)} beyond {tolerance:g}; {len(others)} texts or places differ",
        flush=True,
    )
    lines = [f"{size:.3g}  {text}" for size, text in beyond] + (others if words else [])
    by_question = collections.Counter(text.partition(" | ")[0].split("  ")[-1] for text in lines)
    for text in lines[:shown]:
        print(f"    {text}")
    if len(lines) > shown:
        print(f"    ... {len(lines)} in all, by question:")
        for name, count in by_question.most_common(shown):
            print(f"    {count:6}  {name}")
    return not beyond and not (others and words)


def take(path: Path, family: str, wanted: Callable[[str], bool]) -> None:
    """Write answers of a family into a file, each as soon as it is there; what else the file has stays."""
    for name, found in answers(family, wanted):
        kept = read(path)
        kept.setdefault(family, {})[name] = found
        written(path, kept)


def check(kept: Mapping[str, Any], family: str, options: argparse.Namespace) -> bool:
    """Ask the questions of a family that a file has answers to, and print how they compare; True if as they were."""
    wanted = {name: answer for name, answer in kept.get(family, {}).items() if options.question in name}
    found = dict(answers(family, wanted.__contains__))
    if options.leave_out:
        wanted, found = (
            {
                name: {place: one for place, one in each.items() if options.leave_out not in place}
                for name, each in table.items()
            }
            for table in (wanted, found)
        )
    tolerance = 0.0 if options.exact else options.tolerance
    return checked(wanted, found, family, options.shown, not options.numbers, tolerance)


def main(words: Iterable[str] | None = None) -> int:
    """Take or check golden values; 1 where anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden.net", description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--take", nargs="?", const=VALUES, type=Path, metavar="FILE", help="write what is found")
    what.add_argument("--check", nargs="?", const=VALUES, type=Path, metavar="FILE", help="compare with what it holds")
    parser.add_argument("--only", metavar="FAMILY,..", help=f"of {', '.join(FAMILIES)}")
    parser.add_argument("--question", default="", metavar="TEXT", help="only questions whose name contains it")
    parser.add_argument("--rest", action="store_true", help="with --take: only questions that the file has not")
    parser.add_argument("--tree", type=Path, metavar="FOLDER", help="whose packages answer (default: as Python finds)")
    parser.add_argument("--numbers", action="store_true", help="numbers alone decide: texts may differ")
    parser.add_argument("--exact", action="store_true", help="numbers must be the same bit for bit")
    parser.add_argument(
        "--compiler", metavar="NAME", help="sweeps are computed by numpy, llvm or xla, whatever their size"
    )
    parser.add_argument("--optimised", action="store_true", help="XLA optimises its programs, as it does for users")
    parser.add_argument("--leave-out", metavar="TEXT", help="places that contain it: codes that change at ties")
    parser.add_argument("--dtype", metavar="NAME", default="float64", help="of sweeps: float64 (default) or float32")
    parser.add_argument(
        "--tolerance", type=float, default=TOLERANCE, metavar="X", help="relative difference of equal numbers"
    )
    parser.add_argument("--shown", type=int, default=20, metavar="N", help="differences of a family that are printed")
    options = parser.parse_args(None if words is None else list(words))
    families = options.only.split(",") if options.only else list(FAMILIES)
    for family in families:
        if family not in FAMILIES:
            parser.error(f"there is no family {family}; known: {', '.join(FAMILIES)}")
    path = (options.take or options.check).resolve()
    if options.check and not path.exists():
        parser.error(f"there is no file {path}")
    if options.tree is not None:
        sys.path.insert(0, str(options.tree.resolve()))
    surroundings(options.optimised)
    import sweeps
    from tests.golden import answers as answering

    answering.swept_dtype = options.dtype

    if options.compiler is not None:
        from sweeps.run import engine

        engine.chosen = lambda sizes, most_eager: options.compiler

    print(f"answers of {Path(sweeps.__file__).parents[1]}", file=sys.stderr)
    kept = read(path)
    if options.check:
        return 0 if all([check(kept, family, options) for family in families]) else 1
    for family in families:
        known = set(kept.get(family, {})) if options.rest else set()
        take(path, family, lambda name, known=known: options.question in name and name not in known)
    return 0


if __name__ == "__main__":
    sys.exit(main())
