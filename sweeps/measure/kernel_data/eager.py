"""Host's time in benchmarks that launch their kernels one by one: a floor that no kernel of theirs has."""

from sweeps.measure.kernel_data.group import HostLaunches

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


def host_launches(table: str, engine: str, converts: bool) -> HostLaunches | None:
    """What the host of a table's benchmark launches; None where it replays a graph.

    Args:
      converts: whether the cache has 8 bits, and new keys are converted by a kernel of their own.
    """
    if engine != "sglang":
        return None
    if table == "msa__msa_generation_module":
        return HostLaunches(DECODED_LAUNCH_TIME, above=LARGEST_GRAPH)
    if table not in EAGER:
        return None
    return HostLaunches(EAGER[table], more=1.0 if converts and table != "mla__wideep_context_mla" else 0.0)
