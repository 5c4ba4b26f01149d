"""SGLang: the flags of `python3 -m sglang.launch_server`.

Its tensor-parallel size counts all devices of a layer. Limits of sequences and tokens are those of
the replica; SGLang divides them by the groups of attention data parallelism.
"""

from hwspaces import engine
from hwspaces.engines.launch import LaunchWords
from sweeps.serving.launch.deployed import LaunchedPool
from sweeps.serving.launch.engine import Flag, LaunchedEngine, order_of, quantized, weights_notes


def flags(pool: LaunchedPool, words: LaunchWords) -> list[Flag]:
    """Flags of the server for one replica.

    Raises:
      ValueError: one line, for what SGLang refuses.
    """
    if why := words.refused.get(pool.vendor or ""):
        raise ValueError(f"{pool.hardware}: {why}")
    policy = pool.policy
    budget = f"{float(policy.token_budget):.0f}"
    arguments: list[Flag] = [("--tp-size", str(pool.ranks))]
    arguments += [("--pp-size", str(pool.pp))] if pool.pp > 1 else []
    arguments += [("--dp-size", str(pool.groups)), ("--enable-dp-attention",)] if pool.groups > 1 else []
    arguments += [("--ep-size", str(pool.ep))] if pool.ep > 1 else []
    arguments += [("--context-length", str(pool.context))]
    arguments += [("--max-running-requests", f"{pool.sequences:.0f}")]
    if policy.chunked:
        arguments.append(("--chunked-prefill-size", budget))
    else:
        arguments += [("--chunked-prefill-size", "-1"), ("--max-prefill-tokens", budget)]
    arguments += [("--enable-mixed-chunk",)] if order_of(pool) == "mixed" and not pool.drafts else []
    arguments += [] if policy.prefix_caching else [("--disable-radix-cache",)]
    arguments += [("--mem-fraction-static", f"{pool.static:g}")]
    if cache := words.cache.get(pool.kv or ""):
        arguments.append(("--kv-cache-dtype", cache))
    if method := quantized(pool, words.quantization):
        arguments.append(("--quantization", method))
    if "block_size" in pool.changed:
        arguments.append(("--page-size", f"{float(policy.block_size):.0f}"))
    if "max_waiting" in pool.changed:
        arguments.append(("--max-queued-requests", f"{float(policy.max_waiting):.0f}"))
    if "graph_limit" in pool.changed:
        arguments.append(("--cuda-graph-max-bs-decode", f"{float(policy.graph_limit):.0f}"))
    if policy.queue == "shortest_first":
        arguments.append(("--schedule-policy", "shortest-prefill-first"))
    if "hidden_host" in pool.changed and not policy.hidden_host:
        arguments.append(("--disable-overlap-schedule",))
    if pool.drafts:
        algorithm = "NGRAM" if pool.looked_up else "STANDALONE" if pool.draft else "EAGLE"
        arguments += [("--speculative-algorithm", algorithm)]
        arguments += [("--speculative-draft-model-path", pool.draft)] if pool.draft else []
        if not pool.looked_up:
            arguments += [("--speculative-num-steps", str(pool.drafts)), ("--speculative-eagle-topk", "1")]
        arguments += [("--speculative-num-draft-tokens", str(pool.drafts + 1))]
    return arguments


def remarks(pool: LaunchedPool, words: LaunchWords) -> list[str]:
    """What SGLang does in another way than the row."""
    notes = []
    if order_of(pool) not in ("mixed", "prefill_first"):
        notes.append(f"the row was simulated with {order_of(pool)} steps; SGLang puts prompts first")
    if order_of(pool) == "mixed" and pool.drafts:
        notes.append("the row was simulated with mixed steps; SGLang puts prompts first where tokens are drafted")
    notes += weights_notes("SGLang", pool, words.quantization)
    if pool.kv and pool.kv not in words.cache:
        notes.append(f"a KV cache of {pool.kv} has no flag in SGLang; it has {', '.join(words.cache)}")
    if pool.groups > 1:
        one = f"--attn-dp-size {pool.groups}"
        notes.append(f"--dp-size with --enable-dp-attention is the spelling of all versions; 0.5.23 has {one} for it")
    if pool.vendor == "AMD":
        notes.append("SGLang's images for AMD end in the ROCm version and the GPU's generation: lmsysorg/sglang:TAG")
    return notes


def hosts(rank: str, address: str, pool: LaunchedPool, leads: bool) -> list[Flag]:
    """Flags of one host of a replica that spans several."""
    return [("--nnodes", str(pool.hosts)), ("--node-rank", rank), ("--dist-init-addr", f"{address}:20000")]


def transfer(pool: LaunchedPool) -> list[Flag]:
    """Flags of a prefill or decode pool: caches move from one to the other."""
    moved = ("--disaggregation-transfer-backend", "nixl")
    return [("--disaggregation-mode", pool.role), moved, ("--host", "0.0.0.0")]


ENGINE = LaunchedEngine(entry=engine("sglang"), flags=flags, hosts=hosts, transfer=transfer, remarks=remarks)
