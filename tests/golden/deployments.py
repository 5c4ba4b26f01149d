"""Two hundred random deployments of every family of models, each as a step and as a request, op by op."""

from collections.abc import Iterator

from tests.golden.answers import Question, swept

POINTS = 200

LEAVES = {
    "hardware.memory.hbm.bandwidth": {"from": "1TB/s", "to": "12TB/s", "scale": "log"},
    "hardware.memory.hbm.capacity": {"from": "24GB", "to": "400GB", "scale": "log"},
    "hardware.cores.count": {"from": 40, "to": 300},
    "hardware.links.scale_up.bandwidth": {"from": "30GB/s", "to": "1.8TB/s", "scale": "log"},
    "hardware.power.tdp": {"from": "300W", "to": "1500W"},
}
"""Figures of the accelerator that are drawn with the deployment."""

DEGREES = {"tp": [1, 2, 3, 4, 8], "pp": [1, 2, 4], "dp": [1, 2]}
WIDE = {"attention_dp": [1, 2, 4, 8], "ep": [1, 2, 4, 8], "tp": [1, 2, 4]}

FAMILIES: dict[str, dict] = {
    "dense": {"model": "Llama-3.1-70B", "hardware": "MI300X", "deployment": DEGREES},
    "mixture of experts": {
        "model": "Qwen3-30B-A3B",
        "hardware": "H100-SXM",
        "deployment": WIDE | {"imbalance": {"from": 1.0, "to": 2.0}, "alike": {"from": 0.6, "to": 1.0}},
    },
    "latent attention": {
        "model": "DeepSeek-V2-Lite",
        "hardware": "H100-SXM",
        "deployment": WIDE | {"exchange": "low_latency"},
    },
    "state space": {"model": "Mamba2-2.7B", "hardware": "H100-SXM", "deployment": DEGREES},
    "sliding window": {"model": "Gemma-3-27B", "hardware": "H100-SXM", "deployment": DEGREES},
    "encoder-decoder": {
        "model": "T5-large",
        "hardware": "H100-SXM",
        "deployment": DEGREES,
        "encoder_tokens": [64, 512, 2048],
    },
    "quantised, fp8": {"model": "Qwen3-8B-FP8", "hardware": "H200-SXM", "deployment": DEGREES, "kv": "fp8"},
    "encoder": {"model": "BERT-large", "hardware": "H100-SXM", "deployment": DEGREES, "jobs": ("step",)},
    "vision": {
        "model": "Qwen2.5-VL-7B",
        "hardware": "H100-SXM",
        "deployment": DEGREES,
        "encoder_tokens": [256, 1024, 4096],
        "jobs": ("request",),
    },
    "adapters": {
        "model": "Llama-3.1-8B",
        "hardware": "H100-SXM",
        "deployment": DEGREES | {"adapters": "rank=16,loaded=32,targets=q,v,o,up"},
        "jobs": ("step",),
    },
    "paged and offloaded": {
        "model": "Llama-3.1-8B",
        "hardware": "A100-SXM-80GB",
        "deployment": DEGREES | {"block_tokens": [16, 64, 256], "offloaded": {"from": 0.1, "to": 0.9}},
        "set": {"hardware.memory.host.bandwidth": "25GB/s", "hardware.memory.host.capacity": "512GB"},
        "jobs": ("request",),
    },
    "context parallelism": {
        "model": "Llama-3.1-70B",
        "hardware": "H100-SXM",
        "deployment": {"cp": [1, 2, 4], "tp": [2, 4, 8], "sequence_parallel": True, "overlap": "two_batch"}
        | {"reserved_cores": [0.05, 0.1, 0.2]},
        "jobs": ("step",),
    },
    "drafted": {
        "model": "Llama-3.1-70B",
        "draft": "Llama-3.1-8B",
        "hardware": "H100-SXM",
        "deployment": DEGREES | {"drafts": [0, 1, 2, 4, 7]},
        "acceptance": {"from": 0.3, "to": 0.9},
        "jobs": ("request",),
    },
    "linear attention": {"model": "Qwen3-Next-80B-A3B", "hardware": "H100-SXM", "deployment": DEGREES},
    "quantised, 4 bits": {
        "model": "Qwen2.5-72B-Instruct-AWQ",
        "hardware": "H100-SXM",
        "deployment": DEGREES,
        "jobs": ("step",),
    },
    "quantised, nvfp4": {
        "model": "Qwen3-30B-A3B-NVFP4",
        "hardware": "B200-SXM",
        "deployment": WIDE,
        "jobs": ("step",),
    },
    "unfused": {
        "model": "GPT-2-XL",
        "hardware": "H100-SXM",
        "deployment": DEGREES | {"attention_kernel": "unfused"},
        "jobs": ("step",),
    },
    "windows with sinks": {"model": "gpt-oss-120b", "hardware": "H200-SXM", "deployment": WIDE, "jobs": ("step",)},
    "chunked": {"model": "Llama-4-Scout-17B-16E", "hardware": "H200-SXM", "deployment": WIDE, "jobs": ("step",)},
    "hybrid": {"model": "Nemotron-H-8B", "hardware": "H100-SXM", "deployment": DEGREES, "jobs": ("step",)},
    "speech": {
        "model": "Whisper-large-v3",
        "hardware": "H100-SXM",
        "deployment": DEGREES,
        "encoder_tokens": [750, 1500],
        "jobs": ("request",),
    },
    "compressed attention": {
        "model": "DeepSeek-V4-Flash",
        "hardware": "B200-SXM",
        "deployment": WIDE,
        "jobs": ("step",),
    },
    "sparse attention": {"model": "DeepSeek-V3.2", "hardware": "H200-SXM", "deployment": WIDE, "jobs": ("step",)},
    "latent attention, prediction": {
        "model": "DeepSeek-V3",
        "hardware": "H200-SXM",
        "deployment": WIDE | {"drafts": [1, 2]},
        "acceptance": {"from": 0.3, "to": 0.9},
        "jobs": ("request",),
    },
}
"""What of a specification is a family's own; beside it `acceptance`, `encoder_tokens` and the jobs, if not both."""


def questions() -> Iterator[tuple[str, Question]]:
    """Every family as a request and as a step that prefills and decodes."""
    for seed, family in enumerate(FAMILIES):
        for job in FAMILIES[family].get("jobs", ("request", "step")):
            yield f"{family}, {job}", lambda family=family, job=job, seed=seed: deployed(family, job, seed)


def deployed(family: str, job: str, seed: int, points: int = POINTS) -> dict:
    """A random sample of a family's deployments and workloads, on constant shares of the peaks."""
    own = dict(FAMILIES[family])
    special = {key: own.pop(key) for key in ("acceptance", "encoder_tokens", "jobs") if key in own}
    if family == "encoder":
        work = {"prefills": [1, 2, 8, 32], "prefill": _log(64, 512)}
    elif job == "request":
        work = {"batch": _log(1, 256), "isl": _log(16, 16384), "osl": _log(2, 1024), "cached": [0, 1, 8]}
        work |= {"acceptance": special["acceptance"]} if "acceptance" in special else {}
    else:
        work = {"prefills": [1, 2, 4], "prefill": _log(16, 8192), "past": [0, 100, 5000]}
        work |= {"decode": _log(1, 512), "context": _log(16, 65536)}
    if "encoder_tokens" in special:
        work["encoder_tokens"] = special["encoder_tokens"]
    return swept(
        job=job,
        mode="sample",
        efficiency="derated",
        workload=work,
        axes=LEAVES,
        sample={"points": points, "method": "random", "seed": seed},
        output={"breakdown": job == "step"},
        **own,
    )


def _log(low: float, high: float) -> dict:
    return {"from": low, "to": high, "scale": "log"}
