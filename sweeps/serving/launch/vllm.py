"""vLLM: the flags of `vllm serve`.

Every group of attention data parallelism is an engine of its own with a scheduler of its own, so limits of sequences
and tokens are those of one group. Experts are spread over all devices of a layer, by expert or by width.
"""

import json
from typing import Any

from hwspaces import engine
from hwspaces.engines.launch import LaunchWords
from jaxroof.batch import draft_steps
from jaxroof.deployment import GROUPS
from sweeps.serving.launch.deployed import LaunchedPool
from sweeps.serving.launch.engine import Flag, LaunchedEngine, order_of, quantized, switch, weights_notes


def flags(pool: LaunchedPool, words: LaunchWords) -> list[Flag]:
    """Flags of `vllm serve` for one replica.

    Raises:
      ValueError: one line, for what vLLM refuses.
    """
    if pool.ep not in (1, pool.ranks):
        raise ValueError(
            f"ep = {pool.ep}: vLLM spreads whole experts over all tp x {GROUPS} = {pool.ranks} devices or over none"
        )
    policy = pool.policy
    if pool.step_tokens < pool.max_sequences:
        raise ValueError(
            f"token_budget = {pool.step_tokens} must be at least max_sequences = {pool.max_sequences} in vLLM"
        )
    arguments: list[Flag] = [("--tensor-parallel-size", str(pool.tp))]
    arguments += [("--pipeline-parallel-size", str(pool.pp))] if pool.pp > 1 else []
    arguments += [("--data-parallel-size", str(pool.groups))] if pool.groups > 1 else []
    arguments += [("--enable-expert-parallel",)] if pool.ep > 1 else []
    arguments += [("--max-model-len", str(pool.context)), ("--max-num-seqs", str(pool.max_sequences))]
    arguments += [("--max-num-batched-tokens", str(pool.step_tokens))]
    arguments += [
        switch("enable-chunked-prefill", policy.chunked),
        switch("enable-prefix-caching", policy.prefix_caching),
    ]
    arguments += [("--gpu-memory-utilization", f"{pool.memory:g}")]
    if cache := words.cache.get(pool.kv or ""):
        arguments.append(("--kv-cache-dtype", cache))
    if method := quantized(pool, words.quantization):
        arguments.append(("--quantization", method))
    if "block_size" in pool.changed:
        arguments.append(("--block-size", f"{float(policy.block_size):.0f}"))
    if policy.watermark:
        arguments.append(("--watermark", f"{float(policy.watermark):g}"))
    if "max_waiting" in pool.changed:
        arguments.append(("--max-num-queued-reqs", f"{float(policy.max_waiting):.0f}"))
    if "graph_limit" in pool.changed:
        arguments.append(("--max-cudagraph-capture-size", f"{float(policy.graph_limit):.0f}"))
    if "hidden_host" in pool.changed:
        arguments.append(switch("async-scheduling", policy.hidden_host))
    if pool.drafts:
        drafted: dict[str, Any] = {"method": "ngram" if pool.looked_up else "mtp"}
        drafted = {"method": "draft_model", "model": pool.draft} if pool.draft else drafted
        drafted |= {"num_speculative_tokens": pool.drafts}
        if steps := draft_steps(policy):
            ends = [*(int(start) - 1 for start, _ in steps[1:]), max(int(policy.max_sequences), int(steps[-1][0]))]
            ranges = [[int(start), end, int(tokens)] for (start, tokens), end in zip(steps, ends, strict=True)]
            drafted["num_speculative_tokens_per_batch_size"] = ranges
        arguments.append(("--speculative-config", json.dumps(drafted)))
    return arguments


def remarks(pool: LaunchedPool, words: LaunchWords) -> list[str]:
    """What vLLM does in another way than the row."""
    notes = []
    plugin = words.plugins.get(pool.vendor or "")
    if plugin and pool.hardware != "Arc-Pro-B60":
        notes.append(f"vLLM runs on {pool.hardware} with {plugin}, whose versions are its own")
    if order_of(pool) != "mixed":
        notes.append(f"the row was simulated with {order_of(pool)} steps; vLLM mixes prompts and decoding in a step")
    notes += weights_notes("vLLM", pool, words.quantization)
    if pool.kv and pool.kv not in words.cache:
        notes.append(f"a KV cache of {pool.kv} has no flag in vLLM; it has {', '.join(words.cache)}")
    return notes


def hosts(rank: str, address: str, pool: LaunchedPool, leads: bool) -> list[Flag]:
    """Flags of one host of a replica that spans several."""
    arguments: list[Flag] = [("--nnodes", str(pool.hosts)), ("--node-rank", rank), ("--master-addr", address)]
    arguments += [("--data-parallel-address", address)] if pool.groups > 1 else []
    return arguments if leads else [*arguments, ("--headless",)]


def transfer(pool: LaunchedPool) -> list[Flag]:
    """Flags of a prefill or decode pool: caches move from one to the other."""
    return [("--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"}))]


ENGINE = LaunchedEngine(entry=engine("vllm"), flags=flags, hosts=hosts, transfer=transfer, remarks=remarks)
