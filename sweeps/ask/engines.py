"""Default policies of three engines' schedulers."""

import dataclasses
import re
from typing import Any

from hwspaces import EfficiencyEntry
from jaxroof.policy import ORDERS, Policy
from sweeps.ask.releases import hides_host

ENGINES = {
    # max_num_batched_tokens, max_num_seqs, block_size and prefix caching of its API server on devices of 70 GiB and
    # more; CUDA graphs for 1, 2, 4 and multiples of 8: vllm/engine/arg_utils.py and vllm/config, v0.11; asynchronous
    # scheduling, the default from v0.14 on.
    "vllm": Policy(
        token_budget=8192.0,
        max_sequences=1024.0,
        block_size=16.0,
        graph_step=8.0,
        graph_limit=512.0,
        hidden_host=1.0,
    ),
    # Prompts go first, in chunks of chunked_prefill_size; pages of one token: sglang/srt/server_args.py, v0.5. Its
    # scheduler overlaps too, but its measured points show the whole time of the host: docs/evidence/serving.md.
    "sglang": Policy(
        order=float(ORDERS.index("prefill_first")), token_budget=8192.0, max_sequences=1024.0, block_size=1.0
    ),
    # GUARANTEED_NO_EVICT takes blocks for the whole output; prompts are not split unless chunked prefill is enabled;
    # max_num_tokens, max_batch_size, tokens_per_block, disable_overlap_scheduler:
    # tensorrt_llm/llmapi/llm_args.py, v1.0.
    "trtllm": Policy(
        token_budget=8192.0, max_sequences=2048.0, chunked=0.0, block_size=32.0, reserve=1.0, hidden_host=1.0
    ),
}
"""Engine -> its policy. Sources are the engines' own files."""

ONLY = {"trtllm": ("TensorRT-LLM", "NVIDIA")}
"""Engines that run on the devices of one vendor: their name in words, and the vendor. Source: its own documentation."""


def unsupported(engine: str, vendor: str | None) -> str | None:
    """Why `engine` does not run on the devices of `vendor`; None where it may."""
    name, only = ONLY.get(engine, (engine, vendor))
    return None if vendor is None or vendor == only else f"{name} runs on devices of {only} alone"


def engine_of(efficiency: EfficiencyEntry) -> str:
    """The engine that an efficiency's constants belong to, by its file or its name; "vllm" where neither says."""
    words = f"{efficiency.engine or ''} {efficiency.name}".lower().replace("tensorrt-llm", "trtllm")
    return next((name for name in ENGINES if name in words), "vllm")


def release(engine: str) -> tuple[str, str]:
    """Name and version of an engine as users write it: "vllm@0.11.2", or its name alone for today's, version "".

    Raises:
      ValueError: one line, for an engine that there is not and for a version that is none.
    """
    if not isinstance(engine, str):
        raise ValueError(f"engine = {engine!r} must be a name, such as vllm or vllm@0.24")
    name, _, version = engine.partition("@")
    if name not in ENGINES:
        raise ValueError(f"engine = {engine!r} is not known; known: {', '.join(ENGINES)}, or NAME@VERSION")
    if name != engine and not re.fullmatch(r"\d+(\.\w+)*", version):
        raise ValueError(f"engine = {engine!r}: {version!r} is no version; give one such as {name}@0.24")
    return name, version


def policy(engine: str, **values: float | str) -> Policy:
    """The policy of an engine, as `release` takes it, with some of its numbers replaced.

    Raises:
      ValueError: one line, for an engine or a number that there is not.
    """
    engine, version = release(engine)
    base = ENGINES[engine]
    if version:
        base = dataclasses.replace(base, hidden_host=float(hides_host(engine, version, bool(base.hidden_host))))
    names = [field.name for field in dataclasses.fields(Policy)]
    for name in values:
        if name not in names:
            raise ValueError(f"policy.{name} is not known; known: {', '.join(names)}")
    changed: dict[str, Any] = dict(values)
    return dataclasses.replace(base, **changed)
