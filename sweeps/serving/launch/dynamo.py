"""NVIDIA Dynamo: a DynamoGraphDeployment with a frontend and a pool of workers, or one to prefill and one to decode."""

import json
from collections.abc import Mapping
from typing import Any

from sweeps.serving.launch import trtllm
from sweeps.serving.launch.deployed import LaunchedPool
from sweeps.serving.launch.engine import Flag, LaunchedEngine, header, notes, versions
from sweeps.serving.launch.kubernetes import container, slug
from sweeps.serving.launch.yaml_text import yaml_text

VERSION = "1.6.1"

WORKERS = {
    "vllm": ("0.31.0", "dynamo.vllm", "vllm-runtime"),
    "sglang": ("0.5.21", "dynamo.sglang", "sglang-runtime"),
    "trtllm": ("1.3.0rc29", "dynamo.trtllm", "tensorrtllm-runtime"),
}
"""Engine -> the version that Dynamo's package asks for, its worker's module, and its image."""

MODEL = {"vllm": "--model", "sglang": "--model-path", "trtllm": "--model"}
"""Engine -> the flag that names the model."""

TYPES = {"serve": "worker", "prefill": "prefill", "decode": "decode"}
"""Role of a pool -> type of its component."""


def manifest_text(
    name: str, engine: LaunchedEngine, row: Mapping[str, Any], made: tuple[LaunchedPool, ...], more: list[str]
) -> str:
    """The manifest below a header.

    Args:
      name: the engine that workers run: vllm, sglang or trtllm.
      engine: the same.
      row: the row that is written.
      made: its pools.
      more: notes beside the engine's own.

    Raises:
      ValueError: one line, for what cannot be started this way.
    """
    version, _, runtime = WORKERS[name]
    for pool in made:
        if pool.vendor != "NVIDIA":
            raise ValueError(f"{pool.hardware}: Dynamo's images are for NVIDIA GPUs")
    image = f"nvcr.io/nvidia/ai-dynamo/{runtime}:{VERSION}"
    # One frontend in front of all pools.
    front = {"name": "Frontend", "type": "frontend", "replicas": 1}
    components: list[dict[str, Any]] = [{**front, "podTemplate": _pod({"name": "main", "image": image})}]
    for pool in made:
        component: dict[str, Any] = {"name": pool.role.capitalize(), "type": TYPES[pool.role]}
        component["replicas"] = pool.replicas
        # A replica that spans hosts is one component of several nodes.
        if pool.hosts > 1:
            component["multinode"] = {"nodeCount": pool.hosts}
        component["podTemplate"] = _pod(_worker(name, engine, pool, image))
        components.append(component)
    manifest = {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": slug(made[0].repository)},
        "spec": {"backendFramework": name, "components": components},
    }
    told = [note for pool in made for note in notes(engine, pool)] + more
    title = f"manifest of Dynamo {VERSION} (nvidia.com/v1beta1) with {versions(engine, version)}"
    return header(title, row, made, told) + yaml_text(manifest)


def _pod(made: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"containers": [made]}}


def _worker(name: str, engine: LaunchedEngine, pool: LaunchedPool, image: str) -> dict[str, Any]:
    _, module, _ = WORKERS[name]
    flags: list[Flag] = [(MODEL[name], pool.repository)]
    flags += _trtllm_flags(pool) if name == "trtllm" else engine.flags(pool)
    if pool.role != "serve":
        # SGLang's own flags say the role; the workers of the others have one of Dynamo's.
        flags += engine.transfer(pool) + ([] if name == "sglang" else [("--disaggregation-mode", pool.role)])
    worker = container(pool, ("python3", "-m", module), flags, image)
    # The secret has the token that downloads the model from Hugging Face.
    worker["envFrom"] = [{"secretRef": {"name": "hf-token-secret"}}]
    return worker


def _trtllm_flags(pool: LaunchedPool) -> list[Flag]:
    """Flags of Dynamo's TensorRT-LLM worker, which has spellings of its own."""
    trtllm.require_possible(pool)
    settings = trtllm.config(pool, by_model="Draft_Target", by_head="max_draft_len")  # as of 1.3
    flags: list[Flag] = [("--tensor-parallel-size", str(pool.ranks))]
    flags += [("--pipeline-parallel-size", str(pool.pp))] if pool.pp > 1 else []
    flags += [("--expert-parallel-size", str(pool.ep))] if pool.ep > 1 else []
    # Attention data parallelism has a flag here; what is left of the settings is passed as JSON.
    flags += [("--enable-attention-dp",)] if settings.pop("enable_attention_dp") else []
    flags += [("--max-batch-size", str(pool.max_sequences)), ("--max-num-tokens", str(pool.step_tokens))]
    flags += [("--max-seq-len", str(pool.context)), ("--free-gpu-memory-fraction", f"{pool.memory:g}")]
    flags += [("--gpus-per-node", str(pool.per_host))] if pool.hosts > 1 else []
    return [*flags, ("--override-engine-args", json.dumps(settings))]
