"""Host's time in benchmarks that launch their kernels one by one: a floor that no kernel of theirs has."""

from collections.abc import Sequence

import numpy as np

from jaxroof.hardware import Hardware, on_host
from jaxroof.op import AnyOp, AttentionShape, Kernel

LAUNCH_TIME = 64e-6
"""s of the host per kernel that a block of SGLang's model launches in Python, outside of a graph.

Source: median time of prompts of at most 64 tokens over kernels of their ops, in tables of SGLang 0.5.14 on H100 and
B200: 57 to 66 us; 90 to 103 us in two tables of H200, whose host was slower.
"""

PLAIN_LAUNCH_TIME = 48e-6
"""The same of blocks of latent attention without an indexer: 41 to 52 us, SGLang 0.5.6 to 0.5.10."""

BLOCKS_LAUNCH_TIME = 95e-6
"""The same of MiniMax-M3's blocks, whose few kernels are prepared by more Python: 84 to 103 us, SGLang 0.5.16."""

DECODED_LAUNCH_TIME = 50e-6
"""The same of its batches of decoding that no graph was captured of: 400 us for 8 kernels."""

EAGER = {
    "mla__wideep_context_mla": PLAIN_LAUNCH_TIME,
    "sparse_attention__dsa_context_module": LAUNCH_TIME,
    "msa__msa_context_module": BLOCKS_LAUNCH_TIME,
}
"""Tables of SGLang's prompts that were launched so -> s per kernel. Those of DeepSeek-V4's are replayed from graphs."""

LARGEST_GRAPH = 256.0
"""Sequences of the largest batch that SGLang captures a graph of: more are launched one by one."""

WIDE_BYTES = 2.0
"""B per element of a cache that needs no kernel more to convert what is written to it."""


def host_time(
    table: str, engine: str, ops: Sequence[AnyOp], sequences: np.ndarray, hardware: Hardware
) -> np.ndarray | float:
    """Time in s that the host takes to launch the ops of every row, shape [rows]; 0 where they are replayed."""
    if engine != "sglang":
        return 0.0
    kernels = sum(op.count * op.kernels for op in ops)
    if table != "mla__wideep_context_mla" and any(_converted(op) for op in ops):
        kernels = kernels + 1.0
    if table in EAGER:
        return on_host(EAGER[table] * kernels, hardware)
    if table == "msa__msa_generation_module":
        return np.where(sequences > LARGEST_GRAPH, on_host(DECODED_LAUNCH_TIME * kernels, hardware), 0.0)
    return 0.0


def _converted(op: AnyOp) -> bool:
    return isinstance(op, Kernel) and isinstance(op.shape, AttentionShape) and op.shape.kv_bytes < WIDE_BYTES
