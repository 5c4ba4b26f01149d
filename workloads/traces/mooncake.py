"""Requests of Mooncake's traces: JSON lines of milliseconds, token counts and hashes of prompt blocks."""

import dataclasses
import itertools

import numpy as np

from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, NONE, Stream
from workloads.traces.blocks import block_branches
from workloads.traces.documents import TraceRecord, json_lines, shown
from workloads.traces.rows import UNITS, ReadOptions, Rows, checked
from workloads.traces.turns import GAPS, of_rows

COLUMNS = ("timestamp", "input_length", "output_length")

HASHES = "hash_ids"

DELAYS = ("delay", "tool_wait_ms")
"""Times between an answer and the turn after it."""

OF_GRAPHS = ("wait_for", "branches", "prefix_reset")
"""Keys of rows whose dependencies are named one by one."""

OF_TURNS = frozenset((*OF_GRAPHS, "request_id", "session_id", "chat_id"))
"""Keys of rows that may wait for others, or others for them."""

LONGEST = 1e12
"""ms of a delay: 30 years."""

BLOCK = 512
"""Prompt tokens that one hash stands for in Mooncake's own traces."""

BLOCKS = tuple(2**power for power in range(13, -1, -1))
"""Sizes of blocks that the number of hashes is compared with: 8192 to 1."""

LARGEST_BLOCK = 2**20
"""Tokens of a block that somebody may name."""


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of `timestamp`, `input_length`, `output_length`, `hash_ids`; times count from the first request.

    Hashes make a tree: a request shares the longest run of leading blocks that any one earlier request had at the same
    place, at most its prompt, and groups branch off where prompts part. Rows without hashes share nothing. A hash
    stands for 512 tokens, or for as many as the numbers of hashes and tokens of all rows say. Times are milliseconds,
    or seconds where one of them is not whole and no row has a turn.

    Turns wait for answers: those of a `session_id` for the one before them, those with a `request_id` for what they
    `wait_for`, those with a `parent_chat_id` for the row of that `chat_id`. They come `delay` and `tool_wait_ms` after
    it, or, where neither is given, the time between the two rows.

    Source: kvcache-ai/Mooncake, FAST25-release/README.md ("the timing of request arrivals, the number of input
    tokens, the number of output tokens, and the remapped block hash"); 512 tokens per hash and milliseconds from the
    paper (FAST'25, appendix). The last hash may stand for fewer tokens. Alibaba's traces have hashes of 16 tokens,
    seconds and chats (qwen-bailian-usagetraces-anon); replays of GuideLLM and AIPerf need no hashes. Sessions and
    delays in ms: ai-dynamo/aiperf, dataset/loader/models.py (`MooncakeTrace`); dependencies: ai-dynamo/dynamo,
    dynamo-data-gen (`AgenticMooncakeRow`).
    """
    lines, times, isl, osl, blocks, links = [], [], [], [], [], Links()
    for line, record in json_lines(path):
        links.add(record)
        times.append(links.time(record))
        isl.append(record.count(COLUMNS[1], high=LARGEST_TOKENS))
        osl.append(record.count(COLUMNS[2], high=LARGEST_TOKENS))
        blocks.append(_hashes(record) if HASHES in record else [])
        lines.append(line)
        if len(lines) > MOST_REQUESTS:
            raise ValueError(f"{path}: more than {MOST_REQUESTS} requests, the most that are read")
    columns = [np.array(values, float) for values in (times, isl, osl)]
    tick, timed = _tick(columns[0], options, any(blocks), links.milliseconds)
    rows = Rows(path, lambda row: f"{path}: row {lines[row]}", COLUMNS, columns[0], tick, *columns[1:])
    # Turns without times of their own stand behind their predecessors, wherever those are in the file.
    requests = checked(rows, dataclasses.replace(options, sort=options.sort or links.delayed))
    counts = np.array([len(hashes) for hashes in blocks])
    size, sized = _block_size(rows, counts, options)
    # Rows that were left out never reached a cache, so only the others are matched.
    kept = [blocks[row] for row in requests.rows]
    groups, deep = block_branches(counts[requests.rows], _flat(kept), size, requests.isl, requests.osl)
    turns = of_rows(requests, np.array(links.follows), np.array(links.pauses) * tick)
    notes = (*timed, *sized, *deep, *(links.notes if turns else ()))
    return requests.stream(path, notes, groups, **turns)


class Links:
    """What the rows of a file wait for, row by row; times in the file's unit."""

    def __init__(self) -> None:
        self.follows: list[int] = []  # row of the answer, or NONE
        self.pauses: list[float] = []  # after that answer
        self.milliseconds = False  # whether a row is of a format whose times are milliseconds
        self.delayed = False  # whether a row has a delay in place of a time
        self._planned: list[float] = []  # arrivals by plan
        self._sessions: dict[str, int] = {}  # last row of each
        self._names: dict[str, int] = {}  # row of each request_id or chat_id
        self._inferred, self._joined = False, 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What to say of them."""
        joined = (f"{self._joined:,} requests wait for several answers: here for that of the latest by plan",)
        return (*((GAPS,) if self._inferred else ()), *(joined if self._joined else ()))

    def add(self, record: TraceRecord) -> None:
        """Take the next row's words on what it waits for."""
        row, found = len(self.follows), NONE
        # Most files have none of these words, and most of the time to read them is spent on rows.
        if record.values.keys().isdisjoint(OF_TURNS):
            self.follows.append(NONE)
            return
        if any(key in record for key in OF_GRAPHS):
            self.milliseconds = True
            found = self._latest(record) if record.values.get("wait_for") else NONE
        elif "session_id" in record:
            self.milliseconds = True
            name = str(record.values["session_id"])
            found, self._sessions[name] = self._sessions.get(name, NONE), row
        elif "chat_id" in record:
            found = self._names.get(str(record.values.get("parent_chat_id", NONE)), NONE)
            self._names[str(record.values["chat_id"])] = row
        # Last, so that no row waits for itself.
        if "request_id" in record:
            self._names[str(record.values["request_id"])] = row
        self.follows.append(found)

    def time(self, record: TraceRecord) -> float:
        """The row's arrival by plan."""
        before = self.follows[-1]
        if before == NONE:
            planned, pause = record.number(COLUMNS[0], low=-np.inf), 0.0
        elif delays := [key for key in DELAYS if key in record]:
            pause = sum(record.number(key, high=LONGEST) for key in delays)
            planned, self.delayed, self.milliseconds = self._planned[before] + pause, True, True
        else:
            planned, self._inferred = record.number(COLUMNS[0], low=-np.inf), True
            pause = planned - self._planned[before]
        self._planned.append(planned)
        self.pauses.append(pause)
        return planned

    def _latest(self, record: TraceRecord) -> int:
        """The latest by plan of the rows that a row waits for."""
        names = record.items("wait_for")
        for name in names:
            if str(name) not in self._names:
                raise ValueError(
                    f"{record.place}: wait_for names {shown(name)}; it must be a request_id of a row above"
                )
        self._joined += len(names) > 1
        return max((self._names[str(name)] for name in names), key=lambda row: (self._planned[row], row))


def _tick(times: np.ndarray, options: ReadOptions, hashed: bool, turns: bool) -> tuple[float, tuple[str, ...]]:
    """The unit of the times in s, and what to say of it."""
    if options.time_unit is not None:
        return UNITS[options.time_unit], ()
    # Formats with sessions and delays say that their times are milliseconds.
    if turns:
        return UNITS["ms"], ()
    # Milliseconds are whole in published traces, so a fraction means seconds.
    if np.any(times != np.floor(times)):
        return UNITS["s"], ("times are not whole: read as seconds (--time-unit ms reads milliseconds)",)
    if hashed:
        return UNITS["ms"], ()
    return UNITS["ms"], ("times are read as milliseconds (--time-unit s reads seconds)",)


def _block_size(rows: Rows, counts: np.ndarray, options: ReadOptions) -> tuple[int, tuple[str, ...]]:
    """Tokens that one hash stands for, and what to say of it.

    That of Mooncake where no row has more hashes than it allows; else the largest size that every row has the hashes
    of, with or without one for what is left of the last block.
    """
    if not counts.any():
        return BLOCK, (f"rows have no {HASHES}: no prompt shares its beginning with another",)
    if options.block_tokens is not None:
        _require_blocks(rows, counts, options.block_tokens)
        return options.block_tokens, ()
    hashed, isl = counts > 0, rows.isl
    # A size fits if every row with hashes has one for each full block, and at most one more for the rest.
    fits = [
        size
        for size in BLOCKS
        if np.all((np.floor(isl / size) <= counts)[hashed] & (counts <= np.ceil(isl / size))[hashed])
    ]
    # The size of Mooncake's own traces wins where it fits, or where nothing fits and no row has too many hashes.
    if np.all(counts <= np.ceil(isl / BLOCK)) and (BLOCK in fits or not fits):
        return BLOCK, ()
    if not fits:
        _require_blocks(rows, counts, BLOCK)
    # Sizes are in falling order: the first is the largest that fits.
    size = fits[0]
    return size, (f"{HASHES} are of {size} tokens each, as their number says (--block-tokens names another)",)


def _require_blocks(rows: Rows, counts: np.ndarray, size: int) -> None:
    """ValueError for a row with more hashes than blocks of `size`."""
    wrong = counts > np.ceil(rows.isl / size)
    if wrong.any():
        row = int(np.argmax(wrong))
        most = -(-int(rows.isl[row]) // size)
        raise ValueError(
            f"{rows.place(row)}: {HASHES} has {counts[row]} blocks; {rows.isl[row]:.0f} tokens of input_length are "
            f"at most {most} blocks of {size}; --block-tokens says how many tokens a hash stands for"
        )


def _hashes(record: TraceRecord) -> list[int]:
    """The hashes of a request's blocks."""
    hashes = record.items(HASHES)
    for wrong in (one for one in hashes if type(one) is not int):
        raise ValueError(f"{record.place}: {HASHES} holds {shown(wrong)}; it must be a list of whole numbers")
    return hashes


def _flat(blocks: list[list[int]]) -> np.ndarray:
    """All hashes, one after the other; int64, or Python's integers where one is larger."""
    flat = list(itertools.chain.from_iterable(blocks))
    try:
        return np.array(flat, np.int64)
    except OverflowError:
        # Numbers in place of hashes of more than 63 bits: all that matters is which are equal.
        known: dict[int, int] = {}
        return np.array([known.setdefault(one, len(known)) for one in flat], np.int64)
