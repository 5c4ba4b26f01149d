"""The suite of scenarios: hand-worked values beside answers, and every specification as a sweep in float64."""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.golden.answers import Question, command, swept


def questions() -> Iterator[tuple[str, Question]]:
    """All of them at once as the command answers them, then each in float64 with the hand's assumptions."""
    yield "scenario list", lambda: command("scenario list")
    yield "scenario run --all", lambda: command("scenario run --all")
    yield "scenario run X9", lambda: command("scenario run X9")
    for path in specifications():
        yield path.stem, lambda path=path: in_float64(path)


def specifications() -> list[Path]:
    """Files of the suite, wherever it stands in the packages."""
    import sweeps

    root = Path(sweeps.__file__).parents[1]
    found = [path for package in ("workloads", "sweeps") for path in (root / package).rglob("scenarios/*.toml")]
    return sorted(found, key=lambda path: path.stem)


def in_float64(path: Path) -> dict:
    """The dataset of a scenario's specification on half of the matrix peak, all bandwidth and no fixed time."""
    source = tomllib.loads(path.read_text(encoding="utf-8"))
    source.pop("scenario", None)
    return swept(**{**source, "efficiency": "half"})
