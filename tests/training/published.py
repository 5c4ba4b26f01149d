"""Published training runs: models, layouts and what was measured, as printed, with table and page."""

from typing import NamedTuple


class Run(NamedTuple):
    """One row of a table."""

    name: str
    heads: int
    hidden: int
    layers: int
    tp: int
    pp: int
    devices: int
    batch: int  # sequences of 2048 tokens per iteration
    measured: float  # TFLOP/s per GPU, or s per iteration
    micro_batch: int | None = None  # None: not printed
    chunks: int = 1  # of layers per device
    recompute: str = "full"
    sequence_parallel: bool = False


NARAYANAN = (
    Run("1.7B", 24, 2304, 24, 1, 1, 32, 512, 137),
    Run("3.6B", 32, 3072, 30, 2, 1, 64, 512, 138),
    Run("7.5B", 32, 4096, 36, 4, 1, 128, 512, 142),
    Run("18.4B", 48, 6144, 40, 8, 1, 256, 1024, 135),
    Run("39.1B", 64, 8192, 48, 8, 2, 512, 1536, 138),
    Run("76.1B", 80, 10240, 60, 8, 4, 1024, 1792, 140),
    Run("145.6B", 96, 12288, 80, 8, 8, 1536, 2304, 148),
    Run("310.1B", 128, 16384, 96, 8, 16, 1920, 2160, 155),
    Run("529.6B", 128, 20480, 105, 8, 35, 2520, 2520, 163),
    Run("1008B", 160, 25600, 128, 8, 64, 3072, 3072, 163),
)
"""Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM,
arXiv:2104.04473v5, table 1, page 8: achieved TFLOP/s per GPU on A100 80 GB of Selene, activations recomputed."""


def narayanan_flops(run: Run) -> float:
    """FLOP of one iteration as the paper counts them, recomputation included: its equation (3), page 8."""
    tokens, vocabulary, seq = run.batch * 2048.0, 51200.0, 2048.0
    squares = 96.0 * tokens * run.layers * run.hidden**2
    return squares * (1.0 + seq / (6.0 * run.hidden) + vocabulary / (16.0 * run.layers * run.hidden))


KORTHIKANTI = tuple(
    Run(*shape, measured, micro_batch, chunks, recompute, parallel)
    for shape, micro_batch, chunks, full, selective in (
        (("22B", 64, 6144, 48, 8, 1, 8, 4), 4, 1, 1.42, 1.10),
        (("175B", 96, 12288, 96, 8, 8, 64, 64), 1, 3, 18.13, 13.75),
        (("530B", 128, 20480, 105, 8, 35, 280, 280), 1, 3, 49.05, 37.83),
        (("1T", 160, 25600, 128, 8, 64, 512, 512), 1, 1, 94.42, 71.49),
    )
    for recompute, parallel, measured in (("full", False, full), ("selective", True, selective))
)
"""Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198v1: layouts of
table 3, page 10; s per iteration of table 5, page 13: full recomputation, and selective with sequence parallelism."""


class LlamaRun(NamedTuple):
    """One row of Llama 3's table; tp 8 and pp 16 in all."""

    devices: int
    cp: int
    dp: int
    seq: int
    batch: int  # sequences per data-parallel copy
    measured: float  # TFLOP/s per GPU


LLAMA_CHUNKS = 4
"""Chunks of layers per device. Assumption: the paper interleaves, and does not print how many; 8 layers per device
make 2, 4 or 8."""

LLAMA = (
    LlamaRun(8192, 1, 64, 8192, 32, 430),
    LlamaRun(16384, 1, 128, 8192, 16, 400),
    LlamaRun(16384, 16, 8, 131072, 16, 380),
)
"""Llama Team, The Llama 3 Herd of Models, arXiv:2407.21783v3, table 4, page 10: 405B in BF16 on H100 80 GB;
43, 41 and 38 % of peak. Stages hold 8 layers, the first and last 7 (section 3.3.2)."""
