"""Flags of a deployment: the spread of a model over devices, and its precisions."""

import argparse

DEGREES = {
    "tp": "tensor-parallel degree: heads and widths of a layer are split (default 1)",
    "pp": "pipeline-parallel degree: stages of consecutive layers",
    "cp": "context-parallel degree: tokens of one prompt and its cache are split",
    "attention_dp": "attention data parallelism: groups of requests that share experts",
    "ep": "expert-parallel degree, of the tp x cp x attention-dp devices",
    "dp": "independent replicas; --batch is that of one",
}
"""Settings that count devices; their flags have dashes."""

CHOICES = {
    "exchange": "how tokens reach experts on other devices: all_to_all (default), low_latency, all_gather",
    "context_kind": "how context-parallel devices pass keys and values on: ring (default), all_gather",
    "offload_to": "where the part of the cache is that the device does not keep: host (default), storage",
    "overlap": "what communication hides behind: none (default), gemm, two_batch",
    "attention_kernel": "fused (default), or unfused: products, scale, mask and softmax are kernels of their own",
}

OTHERS = {
    "stages": ("LAYERS,..", "layers of every pipeline stage, where they are not even"),
    "drafts": ("N", "tokens that the model's prediction head or the --draft model drafts per step"),
    "tree": ("BRANCHES,..", "branches of every drafted token by depth, where drafts are a tree: 4,2,1"),
    "adapters": ("SETTINGS", "low-rank adapters that requests run with: rank=16,loaded=32,targets=q,v"),
    "block_tokens": ("TOKENS", "of one block of the KV cache (default: sequences take what they need)"),
    "offloaded": ("SHARE", "of every sequence's cache that is outside the device, in hardware.memory.host"),
    "imbalance": ("RATIO", "rows of the busiest expert-parallel device over the mean (default 1)"),
    "alike": ("EXPONENT", "n^EXPONENT of n tokens choose experts on their own (default 1: routing without preference)"),
    "reserved_cores": ("SHARE", "of the cores that overlapped communication takes from compute (default 0)"),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    for name, text in DEGREES.items():
        parser.add_argument(flag(name), metavar="N", help=text)
    parser.add_argument(
        "--sequence-parallel", action="store_const", const=True, help="norms work on 1/tp of the tokens each"
    )
    for name, text in CHOICES.items():
        parser.add_argument(flag(name), metavar="WAY", help=text)
    for name, (metavar, text) in OTHERS.items():
        parser.add_argument(flag(name), metavar=metavar, help=text)
    parser.add_argument("--attention", metavar="PRECISION", help="of attention products (default: the model's 16 bits)")
    parser.add_argument("--kv", metavar="PRECISION", help="of the KV cache: bf16, fp16, fp8, int8 or fp4")
    parser.add_argument("--communication", metavar="PRECISION", help="of what collectives send (default bf16)")


def flag(name: str) -> str:
    """The flag of a setting."""
    return f"--{name.replace('_', '-')}"


def settings(options: argparse.Namespace) -> dict[str, str | bool]:
    """Settings of `sweeps.case`'s deployment that the flags give, by name."""
    names = (*DEGREES, "sequence_parallel", *CHOICES, *OTHERS)
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.attention is not None:
        given["attention_compute"] = options.attention
    return given
