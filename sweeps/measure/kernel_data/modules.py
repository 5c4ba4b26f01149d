"""Measured attention blocks with their projections, norms and indexer, as the ops that the model's layer launches."""

import dataclasses
import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import workloads
from jaxroof.batch import Batch, Decode, Prefill
from jaxroof.deployment import Deployment
from jaxroof.layers.attention import Attention
from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.layers.registry import mixer_kind
from jaxroof.layers.sight import Selection
from jaxroof.model import Mixer, WeightFormat
from jaxroof.numerics.struct import Scalar
from jaxroof.op import AnyOp, AttentionShape, Kernel, Ops
from sweeps.measure.kernel_data.eager import host_launches
from sweeps.measure.kernel_data.group import Call, Columns, KernelGroup, groups, table
from workloads.models.layer import FP8_SCORES, SCALED_FP8

COLUMNS = ("gpu", "backend", "version", "kernel_source", "model", "kv_cache_dtype", "mla_dtype", "gemm_type")
COLUMNS += ("num_heads", "batch_size", "isl", "step", "latency_us")
"""Columns that every table of blocks has."""

FORMATS = {
    "bfloat16": WeightFormat(bytes=2.0, compute="bf16"),
    "fp8": WeightFormat(bytes=1.0, compute="fp8"),
    "fp8_block": WeightFormat(bytes=1.000244140625, compute="fp8", scaled=True),
    "nvfp4": WeightFormat(bytes=0.5625, compute="fp4", scaled=True),
}
"""`gemm_type` of a table -> how the block's projections are stored and multiplied."""

CACHES = {"bfloat16": 2.0, "fp8": 1.0, "fp8_e4m3": 1.0}
"""`kv_cache_dtype` of a table -> B per cached element."""

COMPUTE = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "bf16"}
"""`mla_dtype` of a table -> precision of the products of attention."""

MODELS = {
    "deepseek-ai/DeepSeek-V3": "DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2": "DeepSeek-V3.2",
    "zai-org/GLM-5": "GLM-5",
    "zai-org/GLM-5-FP8": "GLM-5",
    "zai-org/GLM-5.2": "GLM-5",
    "zai-org/GLM-5.2-FP8": "GLM-5",
    "nvidia/GLM-5.2-NVFP4": "GLM-5",
    "deepseek-ai/DeepSeek-V4-Pro": "DeepSeek-V4-Pro",
    "sgl-project/DeepSeek-V4-Pro-FP8": "DeepSeek-V4-Pro",
    "deepseek-ai/DeepSeek-V4-Flash": "DeepSeek-V4-Flash",
    "sgl-project/DeepSeek-V4-Flash-FP8": "DeepSeek-V4-Flash",
    "MiniMaxAI/MiniMax-M3": "MiniMax-M3",
    "": "DeepSeek-V3",
}
"""`model` of a table -> the entry of the catalogue with the same layer; older rows of the last kind name none."""

WITHOUT_INDEXER = "skip_indexer"
"""Part of `kernel_source` where the layer takes over an earlier one's choice."""

DENSE = "dense_mha"
"""Part of `kernel_source` where all of the context is attended to, heads expanded: no choice is made."""


class Part(NamedTuple):
    """One table of blocks, or of one kernel of them."""

    family: str  # title of its rows
    phase: str  # of its tokens; "" where rows of both are in it
    ratio: float | None = None  # tokens per compressed vector of the layer; None: as the model's only one
    ops: tuple[str, ...] = ()  # ends of the names of the ops that it times; empty: all of the block
    together: tuple[str, ...] = ()  # engines whose rows are one sequence of all tokens, whatever the batch
    cache: float | None = None  # B per cached element where that is not what `kv_cache_dtype` says
    whole: bool = False  # whether every query of it sees all of its sequence, not the tokens before it alone


TABLES = {
    "mla__mla_context_module": Part("block, latent", "prefill"),
    "mla__mla_generation_module": Part("block, latent", "decode"),
    "mla__wideep_context_mla": Part("block, latent", "prefill"),
    "mla__wideep_generation_mla": Part("block, latent", "decode"),
    "sparse_attention__dsa_context_module": Part("block, selected tokens", "prefill"),
    "sparse_attention__dsa_generation_module": Part("block, selected tokens", "decode"),
    "sparse_attention__dsv4_csa_context_module": Part("block, compressed and selected", "prefill", 4.0),
    "sparse_attention__dsv4_csa_generation_module": Part("block, compressed and selected", "decode", 4.0),
    "sparse_attention__dsv4_hca_context_module": Part("block, heavily compressed", "prefill", 128.0),
    "sparse_attention__dsv4_hca_generation_module": Part("block, heavily compressed", "decode", 128.0),
    "msa__msa_context_module": Part("block, selected blocks", "prefill"),
    "msa__msa_generation_module": Part("block, selected blocks", "decode"),
    "sparse_attention__glm5_mqa_logits_module": Part("index scores", "prefill", None, ("index_scores",)),
    "sparse_attention__dsv4_paged_mqa_logits_module": Part("index scores", "", 4.0, ("index_scores",), ("vllm",)),
    "sparse_attention__glm5_topk_module": Part("index top-k", "", None, ("index_top_k",), (), None, True),
    "sparse_attention__dsv4_csa_topk_calib": Part("index top-k", "", 4.0, ("index_top_k",), (), None, True),
    "sparse_attention__glm5_dsa_attn_module": Part(
        "attention to selected tokens", "prefill", None, ("_attention",), (), 2.0
    ),
    "sparse_attention__dsv4_hca_attn_module": Part("attention to compressed vectors", "", 128.0, ("_attention",)),
}
"""Name of a table without its ending -> what it times."""

POOLED = "glm53_attention__glm53_attention_module"
"""Table of GLM-5.3's blocks, whose layer is described in a column of its own."""

COMPOSED = (
    "TensorRT-LLM's block-sparse attention on these devices is a composition of PyTorch's operations, whose time grows "
    "with the square of all cached tokens"
)
UNORDERED = "TensorRT-LLM's block-sparse prompts on B200 take 2 to 400 ms in no order of their sizes"
"""Why rows are left out: their kernels are not those that an engine is to run."""

LABELS = {"model": "{}", "gemm_type": "{}", "kv_cache_dtype": "kv {}", "mla_dtype": "", "kernel_source": ""}
NUMBERS = ("num_heads", "batch_size", "isl", "step")


def block_groups(folder: Path, only: tuple[str, ...] = ()) -> Iterator[KernelGroup]:
    """Rows of every table of blocks in a folder.

    `num_heads` are the heads of one device, `step` the tokens in the cache before, `isl` the new ones of a sequence.

    Args:
      folder: with the tables; those that it lacks are skipped.
      only: names of `TABLES`; empty: all.

    Raises:
      ValueError: one line: a table cannot be read, or a column is missing.
    """
    for name, part in TABLES.items():
        path = folder / f"{name}.parquet"
        if (only and name not in only) or not path.is_file():
            continue
        for group in _table_groups(path, part):
            reason = _left_out(name, group)
            if reason is not None:
                yield dataclasses.replace(group, table=name, call=functools.partial(_raised, reason))
                continue
            host = host_launches(name, group.engine, "kv fp8" in group.precision)
            yield dataclasses.replace(group, table=name, host=host)
    if (not only or POOLED in only) and (path := folder / f"{POOLED}.parquet").is_file():
        yield from (dataclasses.replace(group, table=POOLED) for group in _pooled_groups(path))


def _left_out(table: str, group: KernelGroup) -> str | None:
    """Why the rows of a group are not scored; None: they are."""
    if group.engine != "trtllm" or not table.startswith("msa"):
        return None
    if group.kernel == "default":
        return COMPOSED
    return UNORDERED if "context" in table else None


def _raised(reason: str, row: Columns) -> tuple[AnyOp, ...]:
    raise ValueError(reason)


def _table_groups(path: Path, part: Part) -> list[KernelGroup]:
    frame = table(path, COLUMNS)
    words = frame.select_dtypes(exclude="number").columns
    frame = frame.assign(**{word: frame[word].astype(object).where(frame[word].notna(), "") for word in words})
    if "score_mode" in frame.columns:
        # Scores of a trained indexer are told apart: those that all are equal are a kernel's worst case.
        frame = frame[~frame.score_mode.str.endswith("flat")]
    if part.together:
        one = frame.backend.isin(part.together)
        tokens = frame.batch_size * frame.isl
        frame = frame.assign(isl=tokens.where(one, frame.isl), batch_size=frame.batch_size.where(~one, 1))
    # Tables of one kernel time prompts and decoding alike, told by their number of new tokens.
    decoding = np.full(len(frame), part.phase == "decode") if part.phase else (frame.isl == 1).to_numpy()
    if part.phase == "prefill":
        # vLLM runs a prompt's step of one token as a decoding one.
        decoding = ((frame.isl == 1) & (frame.backend == "vllm")).to_numpy()
    if part.phase == "decode" and (frame.step == 0).all():
        # Where nothing is cached before, `isl` of a decoding row is its context, the new token included.
        frame = frame.assign(step=frame.isl - 1, isl=1)
    found = []
    for phase in ("prefill", "decode"):
        rows = frame[decoding == (phase == "decode")]
        call = functools.partial(_block_call, phase=phase, part=part)
        found += groups(rows, f"{part.family}, {phase}", LABELS, NUMBERS, call) if len(rows) else []
    return found


def _pooled_groups(path: Path) -> list[KernelGroup]:
    """Rows of GLM-5.3: `x` is the new tokens of a prompt, or the context of a decoding sequence."""
    frame = table(path, ("gpu", "backend", "version", "kernel_source", "geometry", "batch_size", "prefix", "x"))
    found = []
    for text, rows in frame.groupby("geometry", sort=True, observed=True):
        geometry = json.loads(text)
        phase = "prefill" if geometry["is_context"] else "decode"
        isl, step = (rows.x, rows.prefix) if phase == "prefill" else (1, rows.x)
        rows = rows.assign(isl=isl, step=step, num_heads=geometry["num_heads"])
        rows = rows.assign(geometry="", kernel_source=rows.kernel_source.astype(str).str.slice(0, 40))
        mixer = _pooled_attention(geometry, FORMATS[geometry["projection_quant_mode"]])
        deployment = Deployment(kv_bytes=CACHES[geometry["kv_cache_dtype"]], attention_compute="bf16")
        part = Part("block, selected pools", phase)
        call = _call(mixer, float(geometry["hidden_size"]), deployment, part, phase)
        found += groups(rows, f"{part.family}, {phase}", {"geometry": "GLM-5.3"}, NUMBERS, lambda geometry, c=call: c)
    return found


def _pooled_attention(geometry: dict[str, Any], weights: WeightFormat) -> LatentAttention:
    """GLM-5.3's layer: an indexer of one key per pool, with a gate per channel beside it."""
    width = float(geometry["index_head_dim"])
    rank, rope = float(geometry["q_lora_rank"]), ROTATED
    selection = Selection(
        tokens=float(geometry["index_topk"]),
        heads=float(geometry["index_n_heads"]),
        head_dim=width,
        stride=float(geometry["index_pool"]),
        key_outputs=2.0 * width,
        query_rank=rank,
        key_bytes=SCALED_FP8,
        weights=weights,
        scoring=FP8_SCORES,
    )
    return LatentAttention(
        heads=float(geometry["num_heads"]),
        query_rank=rank,
        latent=float(geometry["kv_lora_rank"]),
        nope_dim=float(geometry["head_dim"]) - rope,
        rope_dim=rope,
        value_dim=float(geometry["value_head_dim"]),
        selection=selection,
        down=weights,
        query=weights,
        up=weights,
        output=weights,
    )


ROTATED = 64.0
"""Rotated elements of a query and a key of GLM-5.3, as of GLM-5: its table states their sum with the others."""


@functools.cache
def _block_call(
    model: str, gemm_type: str, kv_cache_dtype: str, mla_dtype: str, kernel_source: str, phase: str, part: Part
) -> Call | None:
    """The ops of one block; None where a model or a dtype is not known here."""
    cache, compute = CACHES.get(kv_cache_dtype), COMPUTE.get(mla_dtype, "bf16")
    weights = FORMATS.get(gemm_type or "fp8_block")
    if model not in MODELS or weights is None or cache is None:
        return None
    found = workloads.model(MODELS[model]).model
    mixers: list[Any] = [block.attention for block in found.blocks if block.attention is not None]
    mixer = next(mixer for mixer in reversed(mixers) if part.ratio is None or mixer.ratio == part.ratio)
    if isinstance(mixer, LatentAttention) and mixer.selection is not None:
        selection = _taken_over(mixer.selection) if WITHOUT_INDEXER in kernel_source else mixer.selection
        mixer = dataclasses.replace(mixer, selection=None if DENSE in kernel_source else selection)
    kv_bytes = cache if part.cache is None else part.cache
    deployment = Deployment(kv_bytes=kv_bytes, attention_compute=compute)
    return _call(_formatted(mixer, weights), found.hidden, deployment, part, phase)


def _taken_over(selection: Selection) -> Selection:
    """A choice that an earlier layer has made: an indexer without heads."""
    return dataclasses.replace(selection, heads=0.0, head_dim=0.0, key_outputs=0.0)


def _formatted(mixer: Any, weights: WeightFormat) -> Mixer:
    """The mixer with all of its projections in one format."""
    matrices = ("qkv", "output", "down", "query", "up", "group")
    changed: dict[str, Any] = {name: weights for name in matrices if hasattr(mixer, name)}
    if getattr(mixer, "selection", None) is not None:
        changed["selection"] = dataclasses.replace(mixer.selection, weights=weights)
    return dataclasses.replace(mixer, **changed)


def _call(mixer: Mixer, hidden: Scalar, deployment: Deployment, part: Part, phase: str) -> Call:
    """The ops of one block, or those of them that a table times, from the numbers of a row."""
    kind, whole = mixer_kind(mixer), mixer.heads

    def call(row: Columns) -> tuple[AnyOp, ...]:
        heads, sequences, new, past = (row[name] for name in NUMBERS)
        tokens = sequences * new
        if phase == "prefill":
            prefill = Prefill(sequences=sequences, tokens=tokens, past=sequences * past)
            batch = Batch(prefill=prefill, decode=None, logits=0.0)
        else:
            decode = Decode(sequences=sequences, context=sequences * (past + new))
            batch = Batch(prefill=None, decode=decode, logits=0.0)
        if part.whole and phase == "prefill":
            # As many new tokens of one sequence each, at its end.
            sequences, tokens = tokens, tokens
            prefill = Prefill(sequences=tokens, tokens=tokens, past=tokens * (past + new - 1.0))
            batch = Batch(prefill=prefill, decode=None, logits=0.0)
        ops = kind.ops(_sharded(mixer, heads, whole), hidden, deployment, batch, tokens, 1.0)
        if part.ops:
            ops = {name: _alone(op) for name, op in ops.items() if name.endswith(part.ops)}
        return repeated(ops)

    return call


def _alone(op: AnyOp) -> AnyOp:
    """A kernel that is timed by itself: an engine would not run it where its lists have room for all of a sequence."""
    if not isinstance(op, Kernel) or not isinstance(op.shape, AttentionShape) or op.shape.slots is None:
        return op
    longer = np.maximum(op.shape.keys, op.shape.slots + 1.0)
    return dataclasses.replace(op, shape=dataclasses.replace(op.shape, keys=longer))


def _sharded(mixer: Any, heads: Scalar, whole: Scalar) -> Mixer:
    """The mixer as one device holds it: `heads` of its `whole` heads, and what is split with them."""
    share = heads / whole
    changed: dict[str, Any] = {"heads": heads}
    if isinstance(mixer, Attention):
        # Heads of keys, and those of the indexer that choose for them, are split as far as there are any.
        changed["kv_heads"] = np.maximum(mixer.kv_heads * share, 1.0)
        if mixer.selection is not None:
            own = np.maximum(mixer.selection.heads * share, 1.0)
            changed["selection"] = dataclasses.replace(mixer.selection, heads=own)
    if isinstance(mixer, CompressedAttention):
        changed["output_groups"] = mixer.output_groups * share
    return dataclasses.replace(mixer, **changed)


def repeated(ops: Ops) -> tuple[AnyOp, ...]:
    """The ops of a benchmark that runs the block again and again: what fits into L2 beside the rest is there."""
    kernels = [op for op in ops.values() if isinstance(op, Kernel)]
    touched = sum(op.bytes for op in kernels if op.bytes is not None)
    return tuple(dataclasses.replace(op, reuse_bytes=touched) for op in kernels)
