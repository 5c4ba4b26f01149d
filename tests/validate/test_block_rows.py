"""Measured attention blocks as ops: rows that are written here, what they launch, worked out by hand; measured rows."""

import json
from pathlib import Path

import numpy as np
import pytest

import hwspaces
from sweeps.measure.kernel_data.modules import POOLED, TABLES, block_groups
from sweeps.measure.validate.kernel_errors import kernel_errors, learned_name, score

MEASURED = Path(__file__).parents[2].parent / "shared" / "measured" / "kernels3"

pandas = pytest.importorskip("pandas", reason="pip install '.[validate]'")

LIMITS = {
    "sparse_attention__dsa_generation_module": 0.20,
    "sparse_attention__dsv4_csa_generation_module": 0.18,
    "sparse_attention__dsv4_hca_generation_module": 0.13,
    "sparse_attention__dsv4_paged_mqa_logits_module": 0.13,
}
"""Mean absolute error over a sample of each table, about a tenth above what `docs/evidence/layers.md` has."""

EVERY = 97
"""Rows of a table from one that is scored to the next."""


def rows(folder: Path, table: str, **columns) -> Path:
    """A table of one row of vLLM on an H200; 1 us."""
    plain = {
        "gpu": "h200_sxm",
        "backend": "vllm",
        "version": "0.24.0",
        "kernel_source": "FLASHMLA_SPARSE",
        "model": "deepseek-ai/DeepSeek-V3.2",
        "mla_dtype": "bfloat16",
        "kv_cache_dtype": "bfloat16",
        "gemm_type": "bfloat16",
        "num_heads": 16,
        "batch_size": 2,
        "isl": 1,
        "tp_size": 1,
        "step": 9999,
        "latency_us": 1.0,
    }
    pandas.DataFrame([plain | columns]).to_parquet(folder / f"{table}.parquet")
    return folder


def ops(folder: Path):
    """The one group of a folder, and the ops of its one row."""
    (group,) = block_groups(folder)
    found = group.call(group.columns)
    return group, found, [float(np.squeeze(op.matrix_flops)) for op in found if op.matrix_flops is not None]


def test_selected_tokens_of_a_decoding_block(tmp_path):
    """DeepSeek-V3.2 on 16 heads: 2 sequences of 10,000 tokens, of which 2048 are attended to."""
    group, found, flops = ops(rows(tmp_path, "sparse_attention__dsa_generation_module"))
    assert (group.family, group.table) == ("block, selected tokens, decode", "sparse_attention__dsa_generation_module")
    down, query, index_query, index_key, scores, absorbed, attention, back, output = flops
    assert down == 2 * 2 * 7168 * (1536 + 576) and query == 2 * 2 * 1536 * 16 * 192
    assert index_query == 2 * 2 * 1536 * 64 * 128 and index_key == 2 * 2 * 7168 * (128 + 64)
    assert scores == 2 * 20_000 * 64 * 128
    assert absorbed == 2 * 2 * 16 * 128 * 512 == back and output == 2 * 2 * 16 * 128 * 7168
    assert attention == 2 * 2 * 2048 * 16 * (576 + 512)
    scoring = next(op for op in found if op.kind == "decode_attention" and op.precision == "fp8")
    assert float(np.squeeze(scoring.shape.pairs)) == 10_000 and scoring.shape.paged
    chosen = next(op for op in found if op.shape is not None and hasattr(op.shape, "kept"))
    assert float(np.squeeze(chosen.shape.width)) == 10_000 and chosen.shape.kept == 2048


def test_a_layer_that_takes_over_a_choice_and_one_that_is_dense(tmp_path):
    table = "sparse_attention__dsa_context_module"
    more = {"backend": "sglang", "version": "0.5.14", "isl": 1000, "step": 0, "batch_size": 1}
    group, found, _ = ops(rows(tmp_path, table, kernel_source="sglang_dsa_skip_indexer_flashmla_sparse", **more))
    scores = [op for op in found if op.precision == "fp8"]
    assert all(float(np.squeeze(op.kernels)) == 0.0 for op in scores)
    # 1000 x 1001 / 2 pairs of 16 heads; the host launches every kernel
    assert float(np.squeeze(found[-3].matrix_flops)) == 2 * 500_500 * 16 * 1088
    hardware, engine = hwspaces.hardware("h200_sxm").hardware, hwspaces.efficiency(learned_name("sglang"))
    assert score(group, hardware, engine.efficiency).seconds[0] > 300e-6
    _, found, _ = ops(rows(tmp_path, table, kernel_source="sglang_dsa_dense_mha_fa3", **more))
    (dense,) = [op for op in found if op.kind == "prefill_attention"]
    assert float(np.squeeze(dense.matrix_flops)) == 2 * 500_500 * 16 * (192 + 128) and dense.shape.listed is None


def test_compressed_vectors_and_a_window(tmp_path):
    """DeepSeek-V4-Pro, 16 heads: 10,000 / 4 vectors, of which 1024 are chosen, beside 128 tokens; all 10,000 / 128."""
    model = {"model": "deepseek-ai/DeepSeek-V4-Pro", "kv_cache_dtype": "fp8", "gemm_type": "fp8_block"}
    _, found, _ = ops(rows(tmp_path, "sparse_attention__dsv4_csa_generation_module", compress_ratio=4, **model))
    (attention,) = [op for op in found if op.kind == "decode_attention" and op.precision == "bf16"]
    assert float(np.squeeze(attention.matrix_flops)) == 2 * 2 * (1024 + 128) * 16 * 1024
    assert float(np.squeeze(attention.shape.slots)) == 1152 and attention.shape.listed == "compressed"
    (scores,) = [op for op in found if op.kind == "decode_attention" and op.precision == "fp8"]
    assert float(np.squeeze(scores.matrix_flops)) == 2 * 2 * 2500 * 64 * 128 and scores.shape.paged
    (tmp_path / "sparse_attention__dsv4_csa_generation_module.parquet").unlink()
    _, found, _ = ops(rows(tmp_path, "sparse_attention__dsv4_hca_generation_module", compress_ratio=128, **model))
    (attention,) = [op for op in found if op.kind == "decode_attention"]
    assert float(np.squeeze(attention.matrix_flops)) == pytest.approx(2 * 2 * (10_000 / 128 + 128) * 16 * 1024)


def test_blocks_of_tokens_are_split_with_the_heads(tmp_path):
    """MiniMax-M3 on 16 of 64 heads: one KV head and one head of the indexer, whose projections are the layer's."""
    model = {"model": "MiniMaxAI/MiniMax-M3", "kernel_source": "MiniMaxM3SparseTritonImpl"}
    _, found, flops = ops(rows(tmp_path, "msa__msa_generation_module", **model))
    projection, scores, attention, output = flops
    assert projection == 2 * 2 * 6144 * (16 * 128 + 2 * 128 + 128 + 128)
    assert scores == 2 * 20_000 * 128 and attention == 2 * 2 * 2048 * 16 * 256 and output == 2 * 2 * 16 * 128 * 6144
    chosen = next(op for op in found if op.shape is not None and hasattr(op.shape, "kept"))
    # of 10,000 / 128 blocks the best 16
    assert float(np.squeeze(chosen.shape.width)) == pytest.approx(10_000 / 128) and chosen.shape.kept == 16


def test_pools_of_keys(tmp_path):
    """GLM-5.3: one key for four tokens; `x` is the context of a decoding sequence."""
    geometry = {
        "head_dim": 256, "hidden_size": 4096, "index_head_dim": 128, "index_n_heads": 32, "index_pool": 4,
        "index_topk": 2048, "is_context": False, "kv_cache_dtype": "bfloat16", "kv_lora_rank": 512, "num_heads": 8,
        "projection_quant_mode": "bfloat16", "q_lora_rank": 1536, "value_head_dim": 256,
    }  # fmt: skip
    rows(tmp_path, POOLED, geometry=json.dumps(geometry), prefix=0, x=9999)
    _, found, _ = ops(tmp_path)
    (scores,) = [op for op in found if op.precision == "fp8"]
    assert float(np.squeeze(scores.matrix_flops)) == 2 * 2 * 2500 * 32 * 128


def test_rows_that_are_no_kernel_are_named(tmp_path):
    """TensorRT-LLM's composed block-sparse attention is left out with its reason."""
    more = {"model": "MiniMaxAI/MiniMax-M3", "backend": "trtllm", "kernel_source": "default"}
    result = kernel_errors(rows(tmp_path, "msa__msa_generation_module", **more))
    assert not result.scored
    ((reason, count),) = result.left_out
    assert count == 1 and "composition of PyTorch" in reason


@pytest.mark.skipif(not MEASURED.is_dir(), reason="the measured rows are not beside the project")
def test_measured_blocks_are_met_within_the_limits():
    errors: dict[str, list[np.ndarray]] = {}
    for group in block_groups(MEASURED, tuple(name for name in TABLES if name in LIMITS)):
        group = group.chosen(np.arange(0, len(group), EVERY))
        try:
            engine = hwspaces.efficiency(learned_name(group.engine)).efficiency
            found = score(group, hwspaces.hardware(group.device).hardware, engine)
        except ValueError:
            continue
        errors.setdefault(str(group.table), []).append(np.abs(found.seconds / group.seconds - 1.0))
    means = {table: float(np.mean(np.concatenate(parts))) for table, parts in errors.items()}
    assert set(means) == set(LIMITS)
    assert {table: mean for table, mean in means.items() if mean > LIMITS[table]} == {}
