"""vLLM: the flags of `vllm serve`.

Every group of attention data parallelism is an engine of its own with a scheduler of its own, so limits of sequences
and tokens are those of one group. Experts are spread over all devices of a layer, by expert or by width.
"""

import json

from jaxroof.deployment import GROUPS
from sweeps.serving.launch.deployed import LaunchedPool
from sweeps.serving.launch.engine import Flag, LaunchedEngine, order_of, quantized, switch, weights_notes

KV = {"fp8": "fp8", "bf16": "bfloat16", "fp16": "float16", "int8": "int8_per_token_head", "fp4": "nvfp4"}
"""Precision of the KV cache -> value of --kv-cache-dtype."""

QUANTIZED = {"fp8": "fp8", "mxfp8": "mxfp8", "w8a16": "int8_per_channel_weight_only"}
"""Precision -> value of --quantization that makes such weights of a 16-bit checkpoint when it is loaded."""

PLUGINS = {"Google": "tpu-inference", "Intel": "vllm-gaudi", "AWS": "vllm-neuron", "Huawei": "vllm-ascend"}
"""Vendor -> the package beside vLLM that runs it on the vendor's devices; its versions and images are its own."""


def flags(pool: LaunchedPool) -> list[Flag]:
    """Flags of `vllm serve` for one replica.

    Raises:
      ValueError: one line, for what vLLM refuses.
    """
    if pool.ep not in (1, pool.ranks):
        raise ValueError(
            f"ep = {pool.ep}: vLLM spreads whole experts over all tp x {GROUPS} = {pool.ranks} devices or over none"
        )
    # Limits are those of one group, as each has a scheduler of its own.
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
    if pool.kv in KV:
        arguments.append(("--kv-cache-dtype", KV[pool.kv]))
    if method := quantized(pool, QUANTIZED):
        arguments.append(("--quantization", method))
    # Numbers of the policy that the row does not set have no flag: the engine's defaults stay in force.
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
        # A smaller model drafts, or the prediction head of the model itself (MTP).
        drafted = {"method": "draft_model", "model": pool.draft} if pool.draft else {"method": "mtp"}
        arguments.append(("--speculative-config", json.dumps(drafted | {"num_speculative_tokens": pool.drafts})))
    return arguments


def remarks(pool: LaunchedPool) -> list[str]:
    """What vLLM does in another way than the row."""
    notes = []
    if pool.vendor in PLUGINS and pool.hardware != "Arc-Pro-B60":
        notes.append(f"vLLM runs on {pool.hardware} with {PLUGINS[pool.vendor]}, whose versions are its own")
    if order_of(pool) != "mixed":
        notes.append(f"the row was simulated with {order_of(pool)} steps; vLLM mixes prompts and decoding in a step")
    notes += weights_notes("vLLM", pool, QUANTIZED)
    if pool.kv and pool.kv not in KV:
        notes.append(f"a KV cache of {pool.kv} has no flag in vLLM; it has {', '.join(KV)}")
    return notes


def hosts(rank: str, address: str, pool: LaunchedPool, leads: bool) -> list[Flag]:
    """Flags of one host of a replica that spans several."""
    arguments: list[Flag] = [("--nnodes", str(pool.hosts)), ("--node-rank", rank), ("--master-addr", address)]
    arguments += [("--data-parallel-address", address)] if pool.groups > 1 else []
    # Hosts other than the first serve no requests from outside.
    return arguments if leads else [*arguments, ("--headless",)]


def transfer(pool: LaunchedPool) -> list[Flag]:
    """Flags of a prefill or decode pool: caches move from one to the other."""
    return [("--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"}))]


ENGINE = LaunchedEngine(
    title="vLLM",
    version="0.33.0",
    source="vllm/engine/arg_utils.py and vllm/config/",
    images={"NVIDIA": "vllm/vllm-openai:v0.33.0", "AMD": "vllm/vllm-openai-rocm:v0.33.0"},
    command=("vllm", "serve"),
    model=(),
    flags=flags,
    config=lambda pool: {},
    hosts=hosts,
    transfer=transfer,
    said=frozenset(
        ("token_budget", "max_sequences", "chunked", "block_size", "watermark", "prefix_caching", "max_waiting")
        + ("graph_limit", "hidden_host", "order")
    ),
    remarks=remarks,
)
