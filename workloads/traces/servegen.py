"""Requests drawn from ServeGen's data: per client, rates of 10 minutes and histograms of lengths of hours."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np

from workloads.streams.kinds import nearest
from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream, alone
from workloads.traces.documents import TraceRecord, json_object
from workloads.traces.rows import ReadOptions
from workloads.traces.table import NUMBER, TEXT, Table, table

HEADER = ("start", "rate", "cv", "pattern", "shape", "scale")
PATTERNS = ("Gamma", "Weibull")
LENGTHS = ("input_tokens", "output_tokens")
TRACE = re.compile(r"chunk-(\d+)-trace\.csv")

USUAL_WINDOW = 600.0
"""s of a file's last window, where it is the only one: the usual length."""

_BIN = re.compile(r"\s*(\d{1,9})\s*:\s*([0-9.eE+-]{1,30})\s*")
_SUM_TOLERANCE = 1e-3


@dataclasses.dataclass(frozen=True)
class Client:
    """Data of one client in ServeGen. Arrays of shape [windows]."""

    number: int
    rows: Table
    end: np.ndarray  # s
    histograms: dict[int, tuple[tuple[np.ndarray, np.ndarray], ...]]  # s -> tokens and cumulated shares, per side
    fields: frozenset[str]  # of the histograms that are not used


def read(path: str, options: ReadOptions) -> Stream:
    """A stream drawn from `chunk-N-trace.csv` with `chunk-N-dataset.json` beside it, or from a folder of many.

    In a window of T s at rate r a client sends r T requests, rounded at random. Intervals have the window's pattern
    (gamma or Weibull, of its shape) and are scaled so that they and a last one fill the window. Lengths are drawn
    from the last histograms at or before the window's start, prompt and output independently; a length of 0 counts
    as 1. `options.seed` decides all, `options.span` which seconds; the stream counts from the span's start.

    Source: ServeGen (Xiang et al., arXiv:2505.09999), README.md and servegen/clientpool.py: columns timestamp, rate,
    cv, pattern and its two arguments (those of scipy: shape and scale), histograms as text.
    """
    files = _files(path)
    start, stop = options.span or (0.0, np.inf)
    clients = [_client(file, int(file.name.split("-")[1])) for file in files]
    # Times count from the start of the span, but not from before the first window of any client.
    begins = min(float(client.rows.columns["start"][0]) for client in clients)
    start = max(start, begins)
    # The expected number of requests is checked before any is drawn.
    expected = sum(_expected(client, start, stop) for client in clients)
    if not 0.0 < expected <= MOST_REQUESTS:
        raise ValueError(
            f"{path}: about {expected:.3g} requests; choose a part of 1 to {MOST_REQUESTS} with span=(0, s)"
        )
    parts, skipped, zeros = [], 0.0, 0
    for client in clients:
        part, missed, raised = _drawn(client, start, stop, options.seed)
        parts += part
        skipped, zeros = skipped + missed, zeros + raised
    arrival, isl, osl = (np.concatenate([part[i] for part in parts] or [np.zeros(0)]) for i in range(3))
    if not len(arrival):
        raise ValueError(f"{path}: no request between {start:g} and {stop:g} s")
    order = np.argsort(arrival, kind="stable")
    fields = sorted(frozenset().union(*(client.fields for client in clients)))
    notes = [f"drawn from {len(clients)} clients with seed {options.seed}"]
    notes += [f"about {skipped:.0f} requests left out: no histogram of lengths before their window"] if skipped else []
    notes += [f"{zeros} lengths of 0 tokens count as 1"] if zeros else []
    notes += [f"fields not used: {', '.join(fields)}"] if fields else []
    name = Path(path).name.removesuffix("-trace.csv")
    columns = (arrival[order] - start, isl[order], osl[order], *alone(len(order)))
    return Stream(name, *columns, f"{path}; seed {options.seed}", tuple(notes))


def _files(path: str) -> list[Path]:
    """The trace files of a path, by number of client."""
    location = Path(path)
    if location.is_dir():
        files = sorted(
            (p for p in location.iterdir() if TRACE.fullmatch(p.name)), key=lambda p: int(p.name.split("-")[1])
        )
        if not files:
            raise ValueError(f"{path}: there is no chunk-N-trace.csv in it")
        return files
    if not TRACE.fullmatch(location.name):
        raise ValueError(f"{path}: a file of ServeGen is called chunk-N-trace.csv")
    return [location]


def _client(file: Path, number: int) -> Client:
    rows = table(
        str(file), dict(zip(HEADER, (NUMBER, NUMBER, NUMBER, TEXT, NUMBER, NUMBER), strict=True)), header=HEADER
    )
    start, rate, pattern = (rows.columns[name] for name in ("start", "rate", "pattern"))
    # By column: which rows are right, and what is allowed.
    checks = {
        "start": (np.append(True, np.diff(start) > 0) & (start >= 0), "above the row before it, and at least 0"),
        "rate": ((rate >= 0) & (rate <= 1e6), "from 0 to 1e6"),
        # A row of rate 0 draws no interval, so its shape does not matter.
        "shape": ((rows.columns["shape"] > 1e-3) | (rate == 0), "above 0.001"),
    }
    for name, (right, allowed) in checks.items():
        if not right.all():
            row = int(np.argmin(right))
            raise ValueError(f"{rows.place(row)}: {name} is {rows.columns[name][row]:g}; it must be {allowed}")
    for row in np.flatnonzero((rate > 0) & ~np.isin(pattern.astype(str), PATTERNS)).tolist():
        raise ValueError(f"{rows.place(row)}: pattern is {pattern[row]!r}{nearest(pattern[row], PATTERNS)}")
    # The last window has no end in the file; it is as long as the one before it.
    last = start[-1] - start[-2] if len(start) > 1 else USUAL_WINDOW
    dataset = json_object(str(file.with_name(f"chunk-{number}-dataset.json")))
    histograms, fields = _histograms(dataset)
    return Client(number, rows, np.append(start[1:], start[-1] + last), histograms, fields)


def _histograms(dataset: TraceRecord) -> tuple[dict[int, Any], frozenset[str]]:
    """Histograms by the second from which they hold, those that are empty left out as ServeGen does."""
    histograms, fields = {}, set()
    for key in dataset.values:
        if not re.fullmatch(r"\d{1,12}", key):
            raise ValueError(f"{dataset.place}: {key!r} is not a time; keys are whole seconds")
        window = dataset.table(key)
        fields |= set(window.values) - set(LENGTHS)
        sides = tuple(_histogram(window, side) for side in LENGTHS)
        if all(len(tokens) for tokens, _ in sides):
            histograms[int(key)] = sides
    return dict(sorted(histograms.items())), frozenset(fields)


def _histogram(window: TraceRecord, side: str) -> tuple[np.ndarray, np.ndarray]:
    """Tokens and cumulated shares of the text "{11: 0.4, 13: 0.6}"."""
    text = window.text(side).strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise window.error(side, "a text such as {11: 0.4, 13: 0.6}")
    if not text[1:-1].strip():
        return np.zeros(0), np.zeros(0)
    tokens, shares = [], []
    for item in text[1:-1].split(","):
        pair = _BIN.fullmatch(item)
        try:
            if pair is None:
                raise ValueError(item)
            tokens.append(float(pair[1]))
            shares.append(float(pair[2]))
        except ValueError:
            raise ValueError(f"{window.place}: {side} holds {item.strip()[:40]!r}; it must be TOKENS: SHARE") from None
    shares = np.array(shares)
    if max(tokens) > LARGEST_TOKENS or not (shares >= 0).all() or abs(shares.sum() - 1.0) > _SUM_TOLERANCE:
        raise ValueError(
            f"{window.place}: {side}: shares sum to {shares.sum():g} and tokens go up to {max(tokens):g}; shares must "
            f"be at least 0 and sum to 1, tokens at most {LARGEST_TOKENS}"
        )
    # Normalised, as shares are rounded in the text.
    return np.array(tokens), np.cumsum(shares) / shares.sum()


def _expected(client: Client, start: float, stop: float) -> float:
    # Overlap of each window with the span, s; negative where they do not meet.
    lengths = np.minimum(client.end, stop) - np.maximum(client.rows.columns["start"], start)
    return float((client.rows.columns["rate"] * np.maximum(lengths, 0.0)).sum())


def _drawn(client: Client, start: float, stop: float, seed: int) -> tuple[list[Any], float, int]:
    """Arrival, isl and osl of every window; how many requests had no histogram; how many lengths were 0."""
    # A generator per client: its requests do not depend on the other clients.
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(client.number,))))
    columns, times = client.rows.columns, np.array(list(client.histograms))
    parts, skipped, zeros = [], 0.0, 0
    for row in np.flatnonzero((client.end > start) & (columns["start"] < stop) & (columns["rate"] > 0)):
        begin, end = max(columns["start"][row], start), min(client.end[row], stop)
        # Rounded up or down at random, so that the mean is rate times duration.
        count = int(columns["rate"][row] * (end - begin) + rng.random())
        # The last histograms that hold from the window's start or from before it.
        known = int(np.searchsorted(times, columns["start"][row], side="right")) - 1
        if known < 0:
            skipped += count
            continue
        if not count:
            continue
        shape, kind = columns["shape"][row], columns["pattern"][row]
        # One interval more than requests: it lies between the last request and the end of the window.
        gaps = rng.gamma(shape, size=count + 1) if kind == "Gamma" else rng.weibull(shape, size=count + 1)
        passed = np.cumsum(gaps)
        arrival = begin + (end - begin) * passed[:-1] / passed[-1] if passed[-1] > 0 else np.full(count, begin)
        lengths = []
        for tokens, shares in client.histograms[int(times[known])]:
            drawn = tokens[np.searchsorted(shares, rng.random(count), side="right").clip(max=len(tokens) - 1)]
            zeros += int((drawn == 0).sum())
            lengths.append(np.maximum(drawn, 1.0))
        parts.append((arrival, *lengths))
    return parts, skipped, zeros
