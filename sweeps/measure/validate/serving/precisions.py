"""The checkpoint behind a row: the model at the precisions that its labels and its publisher's own words allow."""

import dataclasses
import functools

import workloads
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.model import Experts, Model, WeightFormat
from workloads import formats

WHOLE = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "int8_wo": "w8a16",
    "int4_wo": "w4a16",
    "sq": "int8",
    "fp8": "fp8-static",
    "fp8_static": "fp8-static",
    "fp8_ootb": "fp8",
    "fp8_block": "fp8",
    "nvfp4": "nvfp4",
    "w4afp8": "w4a8",
    "w4a16_mxfp4": "mxfp4",
    "w4a8_mxfp4_mxfp8": "mxfp4",
}
"""Value of `gemm_quant_mode` or `moe_quant_mode` -> the catalogue's name for it in all linear layers.

Scales of `fp8` are in the checkpoint, as ModelOpt writes them; `fp8_block` is what an engine quantises to as it starts.
"""

SCHEMES: dict[str, formats.Scheme | None] = {
    mode: found if isinstance(found := formats.OVERRIDES[name], formats.Scheme) else None
    for mode, name in WHOLE.items()
} | {
    "fp8_block": formats.fp8((128, 128)),
    "w4a8_mxfp4_mxfp8": formats.mxfp4("fp8"),
}
"""Value of a mode -> how a checkpoint's own such weights are stored and multiplied; None: 16 bits."""

MICROSCALED = "w4a8_mxfp4_mxfp8"
"""How vLLM and TensorRT-LLM multiply MXFP4 experts where the matrix unit takes 4-bit operands: with MXFP8 activations.
Source: VLLM_USE_FLASHINFER_MOE_MXFP4_MXFP8 in InferenceX's gptoss_fp4_b200.sh; TensorRT-LLM's guide for gpt-oss."""

KINDS: dict[str, str | tuple[str, ...]] = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "int8_wo": "w8a16",
    "int4_wo": "w4a16",
    "nvfp4": ("nvfp4", "mxfp4"),
}
"""Value of a mode -> how precisions of checkpoints begin that it stands for, where its bits alone do not say it. The
files call the MXFP4 of gpt-oss `nvfp4`."""

BLOCKED = "-FP8-block"
"""Ending of a name that the catalogue reads as 8-bit weights with a scale per 128 x 128."""

UNBLOCKED = ("Llama",)
"""Families without checkpoints of block scales: `fp8_block` means that the engine quantised them as it started."""

OWN_BLOCKS = ("Qwen3",)
"""Families whose publisher's 8-bit checkpoints have a scale per 128 x 128: what `fp8` stands for where the name is the
16-bit one's. Source: `weight_block_size` in config.json of Qwen/Qwen3-32B-FP8 and its siblings."""


@functools.cache
def labelled_model(name: str, gemm: str, moe: str) -> workloads.ModelEntry:
    """The model at the precisions of the labels: `moe` for routed experts, `gemm` for the rest.

    Rules, in this order:
    1. An empty label stands for the checkpoint's own precision.
    2. A checkpoint is itself where both labels agree with it, or ask for more bits than it has: nobody expands weights.
    3. Checkpoints of 4 bits keep what is no expert as it is, whatever `gemm` says: they quantise experts alone.
    4. `fp8_block` for either part, and `fp8` of a family of `OWN_BLOCKS`, is a checkpoint with block scales in all of
       its layers.
    5. NVFP4 checkpoints of latent attention keep its projections at 16 bits, all but the output's.

    Raises:
      ValueError: one line: a model that the catalogue does not have, or a mode that is not known.

    Source of 5: model card of nvidia/DeepSeek-R1-0528-FP4-v2.
    """
    for column, mode in (("gemm_quant_mode", gemm), ("moe_quant_mode", moe)):
        if mode and mode not in SCHEMES:
            raise ValueError(f"{column} = {mode!r} is not known; known: {', '.join(SCHEMES)}")
    own = workloads.model(name)
    routed = has_experts(own.model)
    if _says(own, gemm) and (not routed or _says(own, moe)):
        return own
    entry = own if _kind(own, gemm) or bits(own.precision) == 4 else _whole(name, own, gemm, moe if routed else "")
    if gemm == "nvfp4" and entry is not own:
        entry = dataclasses.replace(entry, model=_latent_at_16_bits(entry.model))
    if (
        not routed
        or not moe
        or (moe == gemm and entry is not own)
        or (moe == "fp8_block" and entry.precision.startswith("fp8 (block"))
    ):
        return entry
    held = _expert_weights(own.model) if _kind(own, moe) else _weights(own.model.head, moe)
    blocks = tuple(
        dataclasses.replace(block, feedforward=dataclasses.replace(block.feedforward, up=held, down=held))
        if isinstance(block.feedforward, Experts)
        else block
        for block in entry.model.blocks
    )
    model = dataclasses.replace(entry.model, blocks=blocks)
    return dataclasses.replace(entry, model=model, precision=f"{entry.precision}, experts {moe}")


def has_experts(model: Model) -> bool:
    """True for a mixture of experts."""
    return any(isinstance(block.feedforward, Experts) for block in model.blocks)


def bits(precision: str) -> int:
    """Bits of a weight, from the label of a checkpoint's precision."""
    if precision.startswith(("nvfp4", "mxfp4", "w4")):
        return 4
    return 8 if precision.startswith(("fp8", "mxfp8", "int8", "w8")) else 16


def _says(own: workloads.ModelEntry, mode: str) -> bool:
    """True where the checkpoint as it is agrees with `mode`."""
    return _kind(own, mode) or _mode_bits(mode) > bits(own.precision)


def _kind(own: workloads.ModelEntry, mode: str) -> bool:
    """True where `mode` names the checkpoint's own precision."""
    if not mode:
        return True
    if mode in KINDS:
        return own.precision.startswith(KINDS[mode])
    return _mode_bits(mode) == bits(own.precision) == 8


def _mode_bits(mode: str) -> int:
    scheme = SCHEMES[mode] if mode else None
    return 16 if scheme is None else scheme.bits


def _whole(name: str, own: workloads.ModelEntry, gemm: str, moe: str) -> workloads.ModelEntry:
    """The model with `gemm` in all linear layers."""
    blocked = gemm == "fp8_block" or (moe == "fp8_block" and _mode_bits(gemm) == 8)
    blocked = blocked or (gemm == "fp8" and own.name.startswith(OWN_BLOCKS))
    if blocked and not own.name.startswith(UNBLOCKED):
        return workloads.model(f"{name}{BLOCKED}")
    return workloads.model(name, weights="fp8" if blocked else WHOLE[gemm])


def _weights(base: WeightFormat, mode: str) -> WeightFormat:
    scheme = SCHEMES[mode]
    return WeightFormat(bytes=2.0, compute="bf16") if scheme is None else scheme.weight_format(base)


def _expert_weights(model: Model) -> WeightFormat:
    return next(block.feedforward.up for block in model.blocks if isinstance(block.feedforward, Experts))


def _latent_at_16_bits(model: Model) -> Model:
    plain = model.head
    blocks = tuple(
        dataclasses.replace(block, attention=dataclasses.replace(block.attention, down=plain, query=plain, up=plain))
        if isinstance(block.attention, LatentAttention)
        else block
        for block in model.blocks
    )
    return dataclasses.replace(model, blocks=blocks)
