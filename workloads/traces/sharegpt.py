"""Conversations in ShareGPT's form: prompts and answers as text, whose tokens are estimated."""

from typing import Any

import numpy as np

from workloads.streams.stream import LARGEST_TOKENS, MOST_REQUESTS, Stream
from workloads.traces.columns import names_of, proposed
from workloads.traces.documents import TraceRecord, records
from workloads.traces.rows import ReadOptions, Rows, checked

TURNS = ("conversations", "conversation", "messages")
SPEAKERS, TEXTS = ("from", "role"), ("value", "content")
"""The spellings of a conversation's turns, of who speaks, and of what is said."""

BYTES_PER_TOKEN = 4.0
"""B of UTF-8 per token. Source: OpenAI, "What are tokens and how to count them?": 4 characters of English per token."""


def read(path: str, options: ReadOptions) -> Stream:
    """The first prompt and the first answer of every conversation, in the order of the file, all at once.

    Conversations of fewer than two turns are left out and counted, as vLLM's benchmark does.

    Source: vllm-project/vllm, vllm/benchmarks/datasets.py (`ShareGPTDataset`): a list of objects with `conversations`,
    a list of turns with `from` and `value`.
    """
    places, isl, osl, short, later = [], [], [], 0, 0
    for _, record in records(path):
        place, turns = record.place, _turns(record)
        # A system prompt is the beginning of the first prompt.
        if turns and _speaker(turns[0]) == "system":
            turns = [_joined(turns[0], turns[1]), *turns[2:]] if len(turns) > 1 else []
        if len(turns) < 2:
            short += 1
            continue
        later += len(turns) > 2
        places.append(place)
        isl.append(_tokens(turns[0]))
        osl.append(_tokens(turns[1]))
        if len(places) > MOST_REQUESTS:
            raise ValueError(f"{path}: more than {MOST_REQUESTS} conversations, the most that are read")
    if not places:
        raise ValueError(f"{path}: no conversation in it has a prompt and an answer")
    names = ("arrival", "tokens of the prompt", "tokens of the answer")
    rows = Rows(path, lambda row: places[row], names, np.zeros(len(places)), 1.0, np.array(isl), np.array(osl))
    notes = [f"tokens are estimated from the texts: {BYTES_PER_TOKEN:g} B of UTF-8 each", "no times: all at once"]
    if short:
        notes.append(f"{short} of {short + len(places)} conversations without a prompt and an answer left out")
    if later:
        notes.append(f"later turns of {later} conversations left out")
    return checked(rows, options).stream(path, tuple(notes))


def is_conversation(values: Any) -> bool:
    """Whether a value of a file is a conversation."""
    return isinstance(values, dict) and any(isinstance(values.get(key), list) for key in TURNS)


def _turns(record: TraceRecord) -> list[TraceRecord]:
    key = next((key for key in TURNS if key in record), None)
    if key is None:
        how = f"name its keys: --columns {proposed(names_of(record.values))}"
        raise ValueError(f"{record.place}: {TURNS[0]} is missing, so it is no conversation; {how}")
    return record.tables(key)


def _speaker(turn: TraceRecord) -> str:
    return str(next((turn.values[key] for key in SPEAKERS if key in turn), ""))


def _joined(first: TraceRecord, second: TraceRecord) -> TraceRecord:
    """A turn that begins with what another one says."""
    return TraceRecord(second.place, {**second.values, TEXTS[0]: _text(first) + _text(second)})


def _text(turn: TraceRecord) -> str:
    key = next((key for key in TEXTS if key in turn), TEXTS[0])
    value = turn.values.get(key)
    if isinstance(value, list):  # parts of a message, of which texts are counted
        return "".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    return turn.text(key)


def _tokens(turn: TraceRecord) -> float:
    """Estimated tokens of a turn, at least one."""
    # "replace" is for lone surrogates, which JSON may hold and UTF-8 cannot.
    return float(min(max(1, round(len(_text(turn).encode("utf-8", "replace")) / BYTES_PER_TOKEN)), LARGEST_TOKENS))
