"""Acceptance of drafted tokens from a user's words: a probability, several by position, a law, or a file of a table.

A file is CSV, TOML (`[[acceptance]]` tables) or JSON (a list of objects, or one below `acceptance`). Its rows have the
columns `position` (1, 2, ...), `sequences` that decode together, `context` in tokens, and `acceptance`: the probability
that the draft of the position is right, given that those before it are. `sequences` and `context` may be left out. A
table has a row for every combination of the values that it names.
"""

import csv
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hwspaces.files import document
from hwspaces.quantities.units import nearest, quantity
from jaxroof.deployment.acceptance import AcceptanceTable
from jaxroof.deployment.speculation import Acceptance, beta_acceptance
from sweeps.ask.leaves import leaf_number

MOST_DRAFTS = 32
"""Positions that a distribution of acceptance is written out for, or that a table has at most."""

FILES = (".csv", ".toml", ".json")
"""Kinds of files that have a table."""

ACCEPTANCE = "a probability, several by position (0.8,0.7,0.6), beta:MEAN,CONCENTRATION, or a .csv, .toml or .json file"

NEEDED, OPTIONAL = ("position", "acceptance"), ("sequences", "context")
"""Columns of a table."""


def acceptance(value: Any, path: str) -> Acceptance:
    """Probabilities that drafted tokens are right; ValueError names the path, the value and what is allowed."""
    if isinstance(value, AcceptanceTable):
        return value
    if is_table(value):
        return acceptance_table(value, path)
    # A beta distribution of sequences is written out as one probability per position.
    if isinstance(value, str) and value.startswith("beta:"):
        parts = value.removeprefix("beta:").split(",")
        if len(parts) != 2:
            raise ValueError(f"{path} = {value!r} must be {ACCEPTANCE}")
        # The mean is a probability; the concentration, the sum of both parameters, is any positive number.
        mean, concentration = _probability(parts[0], path), quantity(parts[1].strip(), "1", path)
        if not 0.0 < mean < 1.0:
            raise ValueError(f"{path} = {value!r}: the mean must be between 0 and 1")
        return beta_acceptance(mean, concentration, MOST_DRAFTS)
    if isinstance(value, str) and "," in value:
        value = value.split(",")
    if isinstance(value, list | tuple):
        return tuple(_probability(part, path) for part in value)
    return _probability(value, path)


def is_table(value: Any) -> bool:
    """Whether a value names a file of a table; ValueError for a file of another kind."""
    if not isinstance(value, str):
        return False
    named = Path(value).suffix.lower() in FILES
    if not named and Path(value).is_file():
        raise ValueError(f"{value}: a table of acceptance is a file that ends in {', '.join(FILES)}")
    return named


def acceptance_table(file: str, path: str) -> AcceptanceTable:
    """The table in a file.

    Args:
      path: of the leaf whose place it takes, whose range its probabilities have.

    Raises:
      ValueError: one line that names the file, the row and the column with its value, or the combination that is
        missing or there twice.
    """
    found: dict[tuple[float, float, int], float] = {}
    for number, row in enumerate(_rows(file), 1):
        where = f"{file}: row {number}"
        for name in row:
            if name not in (*NEEDED, *OPTIONAL):
                raise ValueError(f"{where}: {name} is no column of it{nearest(str(name), (*NEEDED, *OPTIONAL))}")
        for name in NEEDED:
            if name not in row:
                raise ValueError(f"{where}: column {name} is missing; it has {', '.join(map(str, row))}")
        position = _number(row["position"], f"{where}: position", MOST_DRAFTS)
        if position != int(position):
            raise ValueError(f"{where}: position = {row['position']!r} must be a whole number")
        sequences, context = (_number(row.get(name, 1.0), f"{where}: {name}") for name in OPTIONAL)
        key = sequences, context, int(position)
        if key in found:
            raise ValueError(f"{where}: {_place(key)} is there twice")
        try:
            found[key] = _probability(row["acceptance"], path)
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    if not found:
        raise ValueError(f"{file}: there are no rows in it")
    batches, contexts, _ = (tuple(sorted(set(each))) for each in zip(*found, strict=True))
    positions = range(1, max(position for *_, position in found) + 1)
    for key in itertools.product(batches, contexts, positions):
        if key not in found:
            raise ValueError(f"{file}: there is no row for {_place(key)}: a table has one for every combination")
    right = tuple(
        tuple(tuple(found[one, other, position] for position in positions) for other in contexts) for one in batches
    )
    return AcceptanceTable(sequences=batches, contexts=contexts, right=right)


def acceptance_text(table: AcceptanceTable) -> str:
    """A table in words."""
    chances = [each for row in table.right for places in row for each in places]
    spans = [f"{table.positions} positions"]
    for name, nodes in (("sequences", table.sequences), ("tokens of context", table.contexts)):
        spans += [f"{nodes[0]:g} to {nodes[-1]:g} {name}"] if len(nodes) > 1 else []
    return f"{min(chances):.4g} to {max(chances):.4g} over {', '.join(spans)}"


def acceptance_record(table: AcceptanceTable) -> dict[str, Any]:
    """A table as plain data."""
    right = [[list(places) for places in row] for row in table.right]
    return {"sequences": list(table.sequences), "contexts": list(table.contexts), "right": right}


def _rows(file: str) -> Sequence[Mapping[str, Any]]:
    """Rows of a file by column."""
    kind = Path(file).suffix.lower()
    if kind == ".csv":
        return _lines(file)
    content: Any = document.toml(file) if kind == ".toml" else document.json_value(file)
    if isinstance(content, dict):
        for name in content:
            if name != "acceptance":
                raise ValueError(f"{file}: {name} is not known: a table of acceptance is a list below acceptance")
        content = content.get("acceptance", [])
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise ValueError(f"{file}: acceptance must be a list of rows, each with {', '.join((*NEEDED, *OPTIONAL))}")
    return content


def _lines(file: str) -> list[dict[str, str]]:
    """Rows of a CSV file."""
    lines = [line for line in csv.reader(document.text(file, document.LARGEST_TOML).splitlines()) if any(line)]
    header, rows = [name.strip() for name in (lines or [[]])[0]], lines[1:]
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise ValueError(f"{file}: row {number}: it has {len(row)} values; there are {len(header)} columns")
    return [dict(zip(header, row, strict=True)) for row in rows]


def _number(value: Any, where: str, most: float = 1e9) -> float:
    """A number of at least 1."""
    found = quantity(value.strip() if isinstance(value, str) else value, "1", where)
    if not 1.0 <= found <= most:
        raise ValueError(f"{where} = {value!r} must be from 1 to {most:,.0f}")
    return found


def _place(key: tuple[float, float, int]) -> str:
    return f"position {key[2]} at {key[0]:g} sequences and {key[1]:g} tokens of context"


def _probability(value: Any, path: str) -> float:
    return leaf_number(path, value.strip() if isinstance(value, str) else value)
