"""Requests of Mooncake's traces: JSON lines of milliseconds, token counts and hashes of prompt blocks."""

import numpy as np

from workloads.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream, numbered
from workloads.traces.documents import Record, json_lines, shown
from workloads.traces.rows import Options, Rows, checked

COLUMNS = ("timestamp", "input_length", "output_length")

BLOCK = 512
"""Prompt tokens that one hash stands for."""


def read(path: str, options: Options) -> Stream:
    """The stream of `timestamp`, `input_length`, `output_length`, `hash_ids`; times count from the first request.

    A request shares the longest run of leading blocks that any one earlier request had at the same place, at most its
    prompt. Requests whose prompts begin with the same block are a group.

    Source: kvcache-ai/Mooncake, FAST25-release/README.md ("the timing of request arrivals, the number of input
    tokens, the number of output tokens, and the remapped block hash"); 512 tokens per hash and milliseconds from the
    paper (FAST'25, appendix). The last hash may stand for fewer tokens.
    """
    lines, times, isl, osl, blocks = [], [], [], [], []
    for line, record in json_lines(path):
        times.append(record.number(COLUMNS[0], low=-np.inf))
        isl.append(record.count(COLUMNS[1], high=LARGEST_TOKENS))
        osl.append(record.count(COLUMNS[2], high=LARGEST_TOKENS))
        blocks.append(_hashes(record, isl[-1]))
        lines.append(line)
        if len(lines) > MOST_REQUESTS:
            raise ValueError(f"{path}: more than {MOST_REQUESTS} requests, the most that are read")
    columns = [np.array(values, float) for values in (times, isl, osl)]
    found = Rows(path, lambda row: f"{path}: row {lines[row]}", COLUMNS, columns[0], 1e-3, *columns[1:])
    kept = checked(found, options)
    root, matched = matches([blocks[row] for row in kept.rows])
    shared = np.minimum(matched * float(BLOCK), kept.isl)
    return kept.stream(path, groups=(numbered(root), shared))


def matches(blocks: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Number of the first block, -1 without one, and how many leading blocks one earlier request had.

    A tree of all blocks seen so far: a request follows it as far as it goes, then adds its own branch. int64, shape
    [requests] each.
    """
    tree: dict[tuple[int, int], int] = {}
    root, matched = np.full(len(blocks), -1), np.zeros(len(blocks), np.int64)
    for request, hashes in enumerate(blocks):
        node = 0
        for place, block in enumerate(hashes):
            following = tree.get((node, block))
            if following is None:
                following = len(tree) + 1
                tree[node, block] = following
            else:
                matched[request] = place + 1
            node = following
            if place == 0:
                root[request] = node
    return root, matched


def _hashes(record: Record, tokens: int) -> list[int]:
    """The hashes of a request's blocks; not more than its prompt has."""
    hashes = record.items("hash_ids")
    wrong = next((h for h in hashes if type(h) is not int), None)
    if wrong is not None:
        raise ValueError(f"{record.place}: hash_ids holds {shown(wrong)}; it must be a list of whole numbers")
    if len(hashes) > -(-tokens // BLOCK):
        raise ValueError(
            f"{record.place}: hash_ids has {len(hashes)} blocks; {tokens} tokens of input_length are at most "
            f"{-(-tokens // BLOCK)} blocks of {BLOCK}"
        )
    return hashes
