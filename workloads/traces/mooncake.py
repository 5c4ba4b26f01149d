"""Requests of Mooncake's traces: JSON lines of milliseconds, token counts and hashes of prompt blocks."""

import numpy as np

from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream, numbered
from workloads.traces.documents import TraceRecord, json_lines, shown
from workloads.traces.rows import UNITS, ReadOptions, Rows, checked

COLUMNS = ("timestamp", "input_length", "output_length")

HASHES = "hash_ids"

BLOCK = 512
"""Prompt tokens that one hash stands for in Mooncake's own traces."""

BLOCKS = tuple(2**power for power in range(13, -1, -1))
"""Sizes of blocks that the number of hashes is compared with: 8192 to 1."""

LARGEST_BLOCK = 2**20
"""Tokens of a block that somebody may name."""


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of `timestamp`, `input_length`, `output_length`, `hash_ids`; times count from the first request.

    A request shares the longest run of leading blocks that any one earlier request had at the same place, at most its
    prompt. Requests whose prompts begin with the same block are a group; rows without hashes share nothing. A hash
    stands for 512 tokens, or for as many as the numbers of hashes and tokens of all rows say. Times are milliseconds,
    or seconds where one of them is not whole.

    Source: kvcache-ai/Mooncake, FAST25-release/README.md ("the timing of request arrivals, the number of input
    tokens, the number of output tokens, and the remapped block hash"); 512 tokens per hash and milliseconds from the
    paper (FAST'25, appendix). The last hash may stand for fewer tokens. Alibaba's traces have hashes of 16 tokens and
    seconds (qwen-bailian-usagetraces-anon); replays of GuideLLM and AIPerf need no hashes.
    """
    lines, times, isl, osl, blocks = [], [], [], [], []
    for line, record in json_lines(path):
        times.append(record.number(COLUMNS[0], low=-np.inf))
        isl.append(record.count(COLUMNS[1], high=LARGEST_TOKENS))
        osl.append(record.count(COLUMNS[2], high=LARGEST_TOKENS))
        blocks.append(_hashes(record) if HASHES in record else [])
        lines.append(line)
        if len(lines) > MOST_REQUESTS:
            raise ValueError(f"{path}: more than {MOST_REQUESTS} requests, the most that are read")
    columns = [np.array(values, float) for values in (times, isl, osl)]
    tick, timed = _tick(columns[0], options, any(blocks))
    rows = Rows(path, lambda row: f"{path}: row {lines[row]}", COLUMNS, columns[0], tick, *columns[1:])
    requests = checked(rows, options)
    size, sized = _block_size(rows, np.array([len(hashes) for hashes in blocks]), options)
    # Rows that were left out never reached a cache, so only the others are matched.
    root, matched = matches([blocks[row] for row in requests.rows])
    # The last block may be a partial one: whole blocks can exceed the prompt.
    shared = np.minimum(matched * float(size), requests.isl)
    return requests.stream(path, (*timed, *sized), groups=(numbered(root), shared))


def _tick(times: np.ndarray, options: ReadOptions, hashed: bool) -> tuple[float, tuple[str, ...]]:
    """The unit of the times in s, and what to say of it."""
    if options.time_unit is not None:
        return UNITS[options.time_unit], ()
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


def matches(blocks: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Number of the first block, -1 without one, and how many leading blocks one earlier request had.

    A tree of all blocks seen so far: a request follows it as far as it goes, then adds its own branch. int64, shape
    [requests] each.
    """
    tree: dict[tuple[int, int], int] = {}
    root, matched = np.full(len(blocks), -1), np.zeros(len(blocks), np.int64)
    for request, hashes in enumerate(blocks):
        # Node 0 is the root of the tree; an edge is a node and the block after it.
        node = 0
        for place, block in enumerate(hashes):
            following = tree.get((node, block))
            if following is None:
                following = len(tree) + 1
                tree[node, block] = following
            else:
                # An edge that was there before: an earlier request had the same leading blocks.
                matched[request] = place + 1
            node = following
            if place == 0:
                root[request] = node
    return root, matched


def _hashes(record: TraceRecord) -> list[int]:
    """The hashes of a request's blocks."""
    hashes = record.items(HASHES)
    wrong = next((h for h in hashes if type(h) is not int), None)
    if wrong is not None:
        raise ValueError(f"{record.place}: {HASHES} holds {shown(wrong)}; it must be a list of whole numbers")
    return hashes
