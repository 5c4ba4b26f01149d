"""JSON, JSON lines and YAML files of traces: checked access to their values, with errors that say where they stand."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

import numpy as np

from hwspaces.files import document, extras
from workloads.traces.table import LARGEST_FILE, lines

LARGEST_JSON = 512 * 2**20
"""B of a file that is one JSON value, which takes ten times as much memory."""

LARGEST_LIST = 2**30
"""B of a file that is one JSON list; ShareGPT_V3_unfiltered_cleaned_split.json has 0.67 GB."""

MOST_VALUES = 3 * 10**7
"""Values and keys of such a file."""

MOST_CONTAINERS = 10**7
"""Lists and objects of one JSON value: empty ones take most memory for their length."""

LARGEST_NUMBER = 1e15
"""Above every time in s and every count in the lists of a benchmark."""

LARGEST_YAML = 2**16
"""B of a YAML file, which says how and not which requests; its parser reads 50 kB a second."""

MOST_YAML = 100_000
"""Values of a YAML file, those that aliases stand for counted as often as they are used."""


@dataclasses.dataclass(frozen=True)
class TraceRecord:
    """One object of a file, under the name that errors give it."""

    place: str
    values: Mapping[str, Any]

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def error(self, key: str, allowed: str) -> ValueError:
        """The error that names a key, its value and what is allowed."""
        if key not in self.values:
            return ValueError(f"{self.place}: {key} is missing; it must be {allowed}")
        return ValueError(f"{self.place}: {key} is {shown(self.values[key])}; it must be {allowed}")

    def number(self, key: str, low: float = 0.0, high: float = math.inf) -> float:
        """A finite number from `low` to `high`."""
        value = self.values.get(key)
        if not _is_number(value) or not math.isfinite(value) or not low <= value <= high:
            upper = "" if math.isinf(high) else f" and at most {high:.12g}"
            least = "" if math.isinf(low) else f" of at least {low:.12g}"
            raise self.error(key, f"a number{least}{upper}")
        return float(value)

    def count(self, key: str, low: int = 0, high: float = 1e12) -> int:
        """A whole number from `low` to `high`."""
        value = self.values.get(key)
        if not _is_number(value) or not math.isfinite(value) or value != int(value) or not low <= value <= high:
            raise self.error(key, f"a whole number from {low} to {high:.12g}")
        return int(value)

    def text(self, key: str) -> str:
        """A text."""
        if not isinstance(self.values.get(key), str):
            raise self.error(key, "a text")
        return self.values[key]

    def items(self, key: str, length: int | None = None) -> list[Any]:
        """A list, of `length` where that is given."""
        value = self.values.get(key)
        if not isinstance(value, list):
            raise self.error(key, "a list")
        if length is not None and len(value) != length:
            raise ValueError(f"{self.place}: {key} has {len(value)} values; there are {length} requests")
        return value

    def numbers(self, key: str, length: int | None = None, low: float = 0.0) -> np.ndarray:
        """A list of numbers of at least `low` and at most `LARGEST_NUMBER`. float64, shape [length]."""
        values = self.items(key, length)
        array = np.array([value if _is_number(value) else math.nan for value in values], float)
        # nan stands for a value that is no number, and fails the same test.
        wrong = ~(np.isfinite(array) & (array >= low) & (array <= LARGEST_NUMBER))
        if wrong.any():
            place = int(np.argmax(wrong))
            least = "" if math.isinf(low) else f" of at least {low:g}"
            least += f" and at most {LARGEST_NUMBER:g}" if array[place] > LARGEST_NUMBER else ""
            raise ValueError(
                f"{self.place}: {key}[{place}] is {shown(values[place])}; it must be a finite number{least}"
            )
        return array

    def table(self, key: str) -> "TraceRecord":
        """A nested object."""
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            raise self.error(key, "an object")
        return TraceRecord(f"{self.place}: {key}", value)

    def tables(self, key: str) -> "list[TraceRecord]":
        """A list of objects, named by their place in it, counted from 0."""
        values = self.items(key)
        for place, value in enumerate(values):
            if not isinstance(value, Mapping):
                raise ValueError(f"{self.place}: {key}[{place}] is {shown(value)}; it must be an object")
        return [TraceRecord(f"{self.place}: {key}[{place}]", value) for place, value in enumerate(values)]


def json_lines(file: str) -> Iterator[tuple[int, TraceRecord]]:
    """Line and object of every line of a file of JSON lines; empty lines are none."""
    # Empty lines count, so that rows are numbered as an editor numbers lines.
    for line, words in enumerate(lines(file, LARGEST_FILE, LARGEST_JSON), start=1):
        if words.strip():
            yield line, _object(words, f"{file}: row {line}")


def starts_list(path: str) -> bool:
    """Whether a file is one JSON list, by its first character.

    Raises:
      ValueError: one line: it is missing, no regular file, or too large.
    """
    document.require_file(path, LARGEST_LIST)
    try:
        # `utf-8-sig` skips a byte-order mark, which would otherwise be the first character.
        with open(path, encoding="utf-8-sig") as text:
            return text.read(64).lstrip().startswith("[")
    except (OSError, UnicodeDecodeError):
        return False


def records(path: str) -> Iterator[tuple[int, TraceRecord]]:
    """Line or index, and object, of everything in JSON lines or in a JSON list."""
    # JSON lines are read one by one, a list as a whole.
    if not starts_list(path):
        yield from json_lines(path)
        return
    for index, values in enumerate(document.json_value(path, LARGEST_LIST, MOST_VALUES)):
        if not isinstance(values, dict):
            raise ValueError(f"{path}: [{index}] is {shown(values)}; it must be an object")
        yield index, TraceRecord(f"{path}: [{index}]", values)


def json_object(file: str) -> TraceRecord:
    """The object of a JSON file."""
    return _object(document.text(file, LARGEST_JSON), file)


def run_of(path: str) -> tuple[str, int | None]:
    """File and number of the run in "results.jsonl#2"; None where no run is named."""
    file, _, run = path.rpartition("#")
    if file and re.fullmatch(r"[1-9]\d{0,8}", run):
        return file, int(run)
    return path, None


def chosen(found: list[Any], run: int | None, file: str, what: str) -> int:
    """Position of the run that is asked for, or of the only one."""
    if not found:
        raise ValueError(f"{file}: there is no {what} in it")
    if run is None and len(found) > 1:
        raise ValueError(
            f"{file}: it holds {len(found)} {what}s; write {file}#1 to {file}#{len(found)} for one of them"
        )
    if run is not None and run > len(found):
        raise ValueError(f"{file}#{run}: there is no {what} {run}; the file holds {len(found)}")
    return 0 if run is None else run - 1


def yaml_object(file: str, tags: Iterable[str] = ()) -> TraceRecord:
    """The mapping of a YAML file, of plain values: no tags but those given, no key twice.

    Aliases stand for what they name as often as they are used, up to `MOST_YAML` values in all; none may be inside of
    what it names.

    Args:
      file: the file.
      tags: of mappings that may have one, such as "Component" for !Component, which is then their value of `tag`.

    Raises:
      ValueError: one line, also where PyYAML is not installed.
    """
    # PyYAML is an optional dependency, which only YAML traces need.
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise ValueError(f"{file}: reading YAML needs PyYAML: {extras.installing('traces')}") from None

    class Plain(yaml.SafeLoader):
        """Refuses what makes a small file mean something large or two things."""

        def get_single_node(self) -> Any:
            content = super().get_single_node()
            # Values are counted on the nodes, before anything is built from them.
            _require_few(content, {}, yaml.MarkedYAMLError)
            return content

        def compose_mapping_node(self, anchor: Any) -> Any:
            node, seen = super().compose_mapping_node(anchor), set()
            # PyYAML keeps the last of two equal keys; here they are refused, except for merges (`<<`).
            for key, _ in node.value:
                words = (key.tag, str(key.value))
                if words in seen and not words[0].endswith(":merge"):
                    raise yaml.MarkedYAMLError(problem=f"{key.value} is there twice", problem_mark=node.start_mark)
                seen.add(words)
            return node

    for tag in tags:
        named = {"tag": tag}
        # `named=named` binds the tag of this turn of the loop, not that of the last.
        Plain.add_constructor(f"!{tag}", lambda own, node, named=named: own.construct_mapping(node, deep=True) | named)
    text = document.text(file, LARGEST_YAML)
    try:
        content = yaml.load(text, Plain)  # a SafeLoader: plain values only
    except yaml.MarkedYAMLError as error:
        line = f"row {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ValueError(f"{file}: {line}not YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # Dates that do not exist and nesting that is too deep raise errors of Python itself.
        raise ValueError(f"{file}: not YAML: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(content, Mapping) or not all(isinstance(key, str) for key in content):
        raise ValueError(f"{file}: not a YAML file of names and values")
    document.require_printable(content, file)
    return TraceRecord(file, content)


def _require_few(node: Any, sizes: dict[int, int | None], refusal: Callable[..., Exception]) -> int:
    """Values that a node of a YAML document stands for, with those of its aliases; `refusal` where they are too many.

    Args:
      node: the node; None: nothing.
      sizes: of nodes by identity; None while they are counted.
    """
    if node is None:
        return 0
    if id(node) in sizes:
        size = sizes[id(node)]
        if size is None:
            raise refusal(problem="an alias is inside of what it names", problem_mark=node.start_mark)
        return size
    # None marks a node that is being counted: an alias that leads to it is inside of what it names.
    sizes[id(node)] = None
    # A mapping holds pairs of nodes, a sequence nodes, a scalar a text.
    parts = node.value if isinstance(node.value, list) else []
    count = 1
    for part in parts:
        for inner in part if isinstance(part, tuple) else (part,):
            count += _require_few(inner, sizes, refusal)
    if count > MOST_YAML:
        problem = f"more than {MOST_YAML:,} values, those of aliases counted; that many are read"
        raise refusal(problem=problem, problem_mark=node.start_mark)
    sizes[id(node)] = count
    return count


def shown(value: Any) -> str:
    """A value in a message, shortened."""
    if isinstance(value, list | dict) and len(value) > 8:
        return f"a {'list' if isinstance(value, list) else 'table'} of {len(value)}"
    if isinstance(value, int) and abs(value) > 10**15:
        return f"about 2**{value.bit_length()}"
    text = " ".join(repr(value).split()) if isinstance(value, list | dict | str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_number(value: Any) -> TypeGuard[float]:
    # bool is a subclass of int; integers of more than 64 bits do not fit into NumPy's.
    return isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63)


def _object(text: str, place: str) -> TraceRecord:
    # Counted in the text, before a parser takes memory for them; brackets inside of strings count too.
    if text.count("[") + text.count("{") > MOST_CONTAINERS:
        raise ValueError(f"{place}: more than {MOST_CONTAINERS:,} lists and objects; that many are read")
    value = document.json_of(text, place)
    if not isinstance(value, dict):
        raise ValueError(f"{place}: it is {shown(value)}; it must be a JSON object")
    return TraceRecord(place, value)
