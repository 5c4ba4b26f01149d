"""Loaders of words: quantities with units, conditions, distributions, limits and what is kept."""

import contextlib
import json
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.fuzz.documents import Json, Words
from tests.fuzz.sensible import require_sensible
from tests.fuzz.target import Target

UNITS = {"tpot": "s", "ttft": "s", "feasible": "flag", "hardware": "", "batch": "1"}
COLUMNS = {
    "tpot": np.array([0.01, np.nan, 0.05], np.float32),
    "ttft": np.array([0.1, 0.2, np.inf]),
    "feasible": np.array([True, False, True]),
    "hardware": np.array(["H100-SXM", "B200", "x"], object),
    "batch": np.array([1, 2, 4]),
}


def targets() -> list[Target]:
    """What reads words."""
    from hwspaces.quantities.units import TEXT_UNITS

    symbols = tuple(sorted({symbol for units in TEXT_UNITS.values() for symbol in units if symbol}))
    quantities = ["B/s 3.35 TB/s", "B 80GiB", "s 2us", "USD/s 4.25 USD/h", "1 8", "FLOP/s 1_000e3 GFLOP/s"]
    conditions = ["tpot < 40 ms and feasible", "hardware == 'H100-SXM' or not (batch * 2 > 1e3)", "1 ms <= tpot < ttft"]
    conditions += ["tpot * 8 TB/s > 3 GB + 2 GB", "1 / tpot > 100 Hz or 700 W * ttft < 1 kJ and batch / ttft < 1e3"]
    lengths = ["lognormal:mean=1024,sigma=0.8", "uniform:128..2048", "1024", "zipf:low=16,high=8192,alpha=1.1"]
    lengths += ["gamma:rate=8,cv=3", "stages:8x60,16x30", "groups=10,tokens=1000,zipf=1", "turns=2..8,think=30"]
    lengths += ["ttft=500ms,tpot=40ms,e2e=10s", "pareto:low=16,high=8192,alpha=1.2"]
    kept = ["top=10:tpot", "pareto=ttft:tpot", "histogram", "quantiles", "top=5"]
    return [
        Target("quantity", _quantity, _texts(quantities), Words, (*symbols, "1e999", "1e-320", "_", "µ")),
        Target("leaf", _leaf, lambda: [b'["hardware.memory.hbm.bandwidth", "8TB/s"]', b'["deployment.tp", 8]'], Json),
        Target(
            "condition",
            _condition,
            _texts(conditions),
            Words,
            (*UNITS, "and", "or", "not", "(", "ms", "lambda", ".", "**"),
        ),
        Target("described", _described, _texts(lengths), Words, ("mean", "rate", "1e9", "..", "=", ",", "inf", "nan")),
        Target("pattern", _pattern, _texts(PATTERNS), Words, ("(?:", "|", "*", "{2,3}", "[^a]", "\\.", "(?!", "$")),
        Target("timestamp", _timestamp, _texts(TIMES), Words, ("+14:00", "-00:60", "Z", "2024-02-30", "24:00:00", ".")),
        Target("document", _document, lambda: [b'{"a": {"b": [1, 2.5, null]}, "c": "d"}'], Json, ("a", "b")),
        Target("keep", _keep, _texts(kept), Words, ("top", "=", ":", "tpot", "10000000000000")),
    ]


PATTERNS = [".*self_attn.*", ".*mlp\\.(gate|up|gate_up|down)_proj.*", "^(?!.*experts).*$", "model[.]layers[.][0-9]+[.]"]
PATTERNS += ["(([a-z._0-9])+)+!", "(a|a?){0,3}b*c", "*.mlp.gate", "model.layers.[0-4].*"]
TIMES = ["2023-11-16 18:15:46.6805900", "2024-05-10 00:00:00.009930+00:00", "2024-02-29T23:59:59-05:30"]
TIMES += ["1999-12-31 00:00:00Z"]
PATHS = ("layers.0.self_attn.q_proj", "lm_head", "layers.12.mlp.experts.gate_up_proj", "", "aab.c0_", "a\nb")


def _texts(texts: list[str]):
    return lambda: [text.encode() for text in texts]


def _quantity(data: bytes) -> None:
    from hwspaces import quantity
    from hwspaces.quantities.units import TEXT_UNITS

    unit, _, text = data.decode().partition(" ")
    require_sensible(quantity(text, unit if unit in TEXT_UNITS else "B/s", "--flag"), 5e-324)


def _leaf(data: bytes) -> None:
    from sweeps.ask.leaves import leaf_number

    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("no document") from None
    if isinstance(found, list) and len(found) > 1 and isinstance(found[0], str) and found[0].isprintable():
        require_sensible(leaf_number(found[0], found[1]))


def _condition(data: bytes) -> None:
    from sweeps.data.querying.expression import Condition

    found = Condition(data.decode(), UNITS)(COLUMNS)
    if np.broadcast_shapes(found.shape, (3,)) != (3,) or found.dtype != bool:
        raise AssertionError("no truth values")


def _described(data: bytes) -> None:
    from sweeps.run.simulated.objective import parse_slo
    from workloads.streams.arrivals import parse_arrivals
    from workloads.streams.lengths import parse_lengths, parse_prefixes
    from workloads.streams.sessions import parse_sessions

    text = data.decode()
    errors = []
    for parse in (parse_lengths, parse_arrivals, parse_prefixes, parse_sessions, parse_slo):
        try:
            found: Any = parse(text)
        except ValueError as error:
            errors.append(error)
            continue
        rng = np.random.default_rng(0)
        if parse is parse_lengths:
            require_sensible(found.drawn(rng, 10), 1.0, 1e12)
        elif parse is parse_arrivals:
            require_sensible(found.drawn(rng, 10, None), beyond=1e40)
        elif parse is not parse_slo:  # whose figures are inf where nothing is asked
            require_sensible(found)
    if errors:
        raise errors[0]


def _pattern(data: bytes) -> None:
    """Patterns match what Python's own do, where both read them and Python's end: those without repeated groups."""
    import fnmatch
    import re
    import warnings

    from workloads.expressions import Expressions, wildcard

    text = data.decode()
    if "*?["[len(data) % 3] in text and "(" not in text:
        own = Expressions([text], wildcard)
        for path in PATHS:
            if own.match(path) != fnmatch.fnmatchcase(path, text):
                raise AssertionError(f"{path} is matched otherwise by fnmatch")
    own = Expressions([text])
    found = [own.match(path) for path in PATHS]
    if re.search(r"[)][*+?{]|[*+}?].*[*+}].*[*+}]", text) or not text.isascii() or "$" in text:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of brackets inside brackets
        expected = [re.match(text, path) is not None for path in PATHS]
    if found != expected:
        raise AssertionError(f"{found} in place of {expected}")


def _timestamp(data: bytes) -> None:
    """Times of traces are the moments that Python's own reader finds, where it reads them too."""
    import datetime

    from workloads.traces.table import TIMESTAMP

    text = data.decode()
    try:
        found = int(TIMESTAMP.convert([text])[0])
    except ValueError:  # without words: the table says where
        raise ValueError("no time") from None
    with contextlib.suppress(ValueError):
        moment = datetime.datetime.fromisoformat(text.strip())
        expected = moment.replace(tzinfo=moment.tzinfo or datetime.UTC).timestamp()
        if abs(found / 1e9 - expected) > 1e-3:
            raise AssertionError(f"{found / 1e9} s in place of {expected}")


def _document(data: bytes) -> None:
    """A JSON text whose value is read says every key once."""
    from hwspaces.files.document import json_of

    def once(pairs: list) -> dict:
        if len({key for key, _ in pairs}) < len(pairs):
            raise AssertionError("a key twice")
        return dict(pairs)

    text = data.decode()
    found = json_of(text, "own.json")
    json.loads(text, object_pairs_hook=once)
    if repr(found).count("[") > len(text):
        raise AssertionError("more lists than the text has")


def _keep(data: bytes) -> None:
    from sweeps.data.keep import keepers

    axes = (SimpleNamespace(name="batch", size=10),)
    output = SimpleNamespace(dtype=np.dtype(np.float32), ops=(), dims=("batch",), shape=(10,))
    plan = SimpleNamespace(axes=axes, outputs={"tpot": output, "ttft": output}, points=10)
    if data.decode().isprintable():  # as specifications have it
        keepers(data.decode().split(","), plan, "request")
