"""TensorRT-LLM: the flags of `trtllm-serve serve` and the YAML file of its other settings.

Its tensor-parallel size counts all devices of a layer. Attention data parallelism is all of them or none, and limits
of sequences and tokens are then those of one device. The file's `kv_cache_config` takes the place of what flags say of
the cache, so the memory's share stands there.
"""

from typing import Any

from hwspaces import engine
from hwspaces.engines.launch import LaunchWords
from jaxroof.deployment import GROUPS
from sweeps.serving.launch.deployed import LaunchedPool
from sweeps.serving.launch.engine import Flag, LaunchedEngine, order_of, weights_notes


def flags(pool: LaunchedPool, words: LaunchWords) -> list[Flag]:
    """Flags of the server for one replica.

    Raises:
      ValueError: one line, for what TensorRT-LLM refuses.
    """
    require_possible(pool)
    arguments: list[Flag] = [("--backend", "pytorch"), ("--tp_size", str(pool.ranks))]
    arguments += [("--pp_size", str(pool.pp))] if pool.pp > 1 else []
    arguments += [("--ep_size", str(pool.ep))] if pool.ep > 1 else []
    arguments += [("--max_batch_size", str(pool.max_sequences)), ("--max_num_tokens", str(pool.step_tokens))]
    arguments += [("--max_seq_len", str(pool.context))]
    arguments += [("--gpus_per_node", str(pool.per_host))] if pool.hosts > 1 else []
    return arguments


def require_possible(pool: LaunchedPool) -> None:
    """ValueError in one line for a pool that TensorRT-LLM cannot run."""
    if pool.vendor != "NVIDIA":
        raise ValueError(f"{pool.hardware}: TensorRT-LLM runs on NVIDIA GPUs only")
    if pool.groups > 1 and pool.tp > 1:
        raise ValueError(
            f"tp = {pool.tp} with {GROUPS} = {pool.groups}: TensorRT-LLM splits attention over all devices "
            "of a layer by requests or by heads, not by both"
        )


def config(
    pool: LaunchedPool, words: LaunchWords, by_model: str = "DraftTarget", by_head: str = "num_nextn_predict_layers"
) -> dict[str, Any]:
    """Settings that have no flag, as the file holds them.

    Args:
      pool: what is started.
      words: names of precisions.
      by_model, by_head: words of the version for drafting by a smaller model, and for the tokens that the model's own
        prediction head drafts.
    """
    policy = pool.policy
    cache: dict[str, Any] = {
        "enable_block_reuse": bool(policy.prefix_caching),
        "free_gpu_memory_fraction": pool.memory,
    }
    dtype = words.cache.get(pool.kv or "")
    cache |= {"dtype": dtype} if dtype else {}
    cache |= {"tokens_per_block": int(policy.block_size)} if "block_size" in pool.changed else {}
    capacity = "GUARANTEED_NO_EVICT" if policy.reserve else "MAX_UTILIZATION"
    settings: dict[str, Any] = {
        "enable_attention_dp": pool.groups > 1,
        "enable_chunked_prefill": bool(policy.chunked),
        "kv_cache_config": cache,
        "scheduler_config": {"capacity_scheduler_policy": capacity},
    }
    if "graph_limit" in pool.changed:
        settings["cuda_graph_config"] = {"enable_padding": True, "max_batch_size": int(policy.graph_limit)}
    if "hidden_host" in pool.changed:
        settings["disable_overlap_scheduler"] = not policy.hidden_host
    if pool.drafts and pool.draft:
        settings["disable_overlap_scheduler"] = True  # as the documentation of drafting by a smaller model has it
        settings["speculative_config"] = {
            "decoding_type": by_model,
            "max_draft_len": pool.drafts,
            "speculative_model": pool.draft,
        }
    elif pool.drafts and pool.looked_up:
        settings["speculative_config"] = {"decoding_type": "NGram", "max_draft_len": pool.drafts}
    elif pool.drafts:
        settings["speculative_config"] = {"decoding_type": "MTP", by_head: pool.drafts}
    if pool.role != "serve":
        settings["cache_transceiver_config"] = {"backend": "DEFAULT"}
    return settings


def remarks(pool: LaunchedPool, words: LaunchWords) -> list[str]:
    """What TensorRT-LLM does in another way than the row."""
    notes = ["free_gpu_memory_fraction is of the memory that is free beside the weights; the row's share is of all"]
    if order_of(pool) != "mixed":
        notes.append(f"the row was simulated with {order_of(pool)} steps; TensorRT-LLM mixes prompts and decoding")
    notes += weights_notes("TensorRT-LLM", pool, words.quantization)
    if pool.kv and pool.kv not in words.cache and pool.kv not in ("bf16", "fp16"):
        notes.append(f"a KV cache of {pool.kv} has no setting in TensorRT-LLM; it has {', '.join(words.cache)}")
    return notes


ENGINE = LaunchedEngine(entry=engine("trtllm"), flags=flags, config=config, remarks=remarks)
