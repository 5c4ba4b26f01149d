"""Requests of LLMServingSim's workloads: JSON lines of nanoseconds, single requests or sessions of chained calls."""

import dataclasses

import numpy as np

from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, NONE, Stream, alone, numbered
from workloads.streams.tree import Branches
from workloads.traces.blocks import block_branches
from workloads.traces.documents import TraceRecord, json_lines
from workloads.traces.rows import UNITS, Checked, ReadOptions, Rows, checked
from workloads.traces.turns import of_rows

COLUMNS = ("arrival_time_ns", "input_toks", "output_toks")
CALLS, PAUSE, TOKENS = "sub_requests", "tool_duration_ns", "input_tok_ids"

BLOCK = 16
"""Prompt tokens that are compared together: vLLM's block."""

MOST_TOKENS = 10**8
"""Tokens of all prompts that a file lists."""


def read(path: str, options: ReadOptions) -> Stream:
    """The stream of `input_toks`, `output_toks` and `arrival_time_ns`; times count from the first request.

    A line with `sub_requests` is a session of calls: the first one comes at the line's time, each other one
    `tool_duration_ns` of the call before it after that call's answer. Where `input_tok_ids` lists a prompt's tokens,
    requests share their leading blocks of 16 tokens; otherwise what they share is not in the file, and counts as 0.

    Source: casys-kaist/LLMServingSim, workloads/README.md (formats; both may stand in one file).
    """
    places: list[str] = []
    numbers: tuple[list[float], ...] = ([], [], [])
    follows: list[int] = []
    pauses: list[float] = []
    sessions: list[int] = []
    prompts: list[np.ndarray] = []
    for line, record in json_lines(path):
        calls = record.tables(CALLS) if CALLS in record else [record]
        time, pause = record.number(COLUMNS[0], high=1e18), 0.0
        for index, call in enumerate(calls):
            # By plan a call comes its tool's time after the call before it.
            time += pause
            follows.append(len(places) - 1 if index else NONE)
            pauses.append(pause)
            sessions.append(line)
            tokens = (call.count(name, high=LARGEST_TOKENS) for name in COLUMNS[1:])
            for column, value in zip(numbers, (time, *tokens), strict=True):
                column.append(value)
            prompts.append(_tokens(call))
            places.append(call.place)
            pause = call.number(PAUSE, high=1e18) if PAUSE in call else 0.0
        if len(places) > MOST_REQUESTS:
            raise ValueError(f"{path}: more than {MOST_REQUESTS} requests, the most that are read")
        if sum(map(len, prompts[-len(calls) :])) > MOST_TOKENS:
            raise ValueError(f"{record.place}: more than {MOST_TOKENS:,} tokens are listed; that many are read")
    rows = Rows(path, lambda row: places[row], COLUMNS, np.array(numbers[0]), UNITS["ns"], *map(np.array, numbers[1:]))
    # Calls of a session stand together in the file, whatever comes between them.
    requests = checked(rows, dataclasses.replace(options, sort=options.sort or len(set(sessions)) < len(sessions)))
    turns = of_rows(requests, np.array(follows), np.array(pauses) * UNITS["ns"])
    groups, notes = _groups(requests, prompts, np.array(sessions))
    return requests.stream(path, notes, groups, **turns)


def _groups(
    requests: Checked, prompts: list[np.ndarray], sessions: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray] | Branches, tuple[str, ...]]:
    """Groups of requests by their listed tokens, else by their sessions; and what to say of them."""
    kept = [prompts[row] for row in requests.rows]
    if not any(map(len, kept)):
        group = numbered(sessions[requests.rows])
        if (group < 0).all():
            return alone(len(group)), ("prompts share nothing: no input_tok_ids",)
        what = "sessions are groups; what their calls share is not in the file and counts as 0"
        return (group, np.zeros(len(group))), (what,)
    counts = np.array([len(tokens) // BLOCK for tokens in kept])
    blocks = np.concatenate([tokens[: BLOCK * count] for tokens, count in zip(kept, counts, strict=True)])
    # A block is known by its tokens; what stands before it decides in the tree.
    _, hashes = np.unique(blocks.reshape(-1, BLOCK), axis=0, return_inverse=True)
    return block_branches(counts, hashes.reshape(-1), BLOCK, requests.isl, requests.osl)


def _tokens(call: TraceRecord) -> np.ndarray:
    """The tokens of a prompt; none where the file does not list them."""
    if TOKENS not in call:
        return np.zeros(0)
    return call.numbers(TOKENS)[: call.count(COLUMNS[1], high=LARGEST_TOKENS)]
