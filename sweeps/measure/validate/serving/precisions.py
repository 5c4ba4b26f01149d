"""The checkpoint behind a row: the model at the precisions that its labels and its publisher's own words allow."""

import functools
from typing import NamedTuple

import workloads
from jaxroof.model import has_experts
from workloads.precisions import formats
from workloads.precisions.precision import EXPERTS

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

EXPERT_NAMES = WHOLE | {"fp8_block": "fp8-block", MICROSCALED: "mxfp4-fp8"}
"""Value of `moe_quant_mode` -> the catalogue's name for it in routed experts."""

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


class Checkpoint(NamedTuple):
    """A model as `--model` and `--weights` name it."""

    model: str
    weights: str | None = None


@functools.cache
def labelled(name: str, gemm: str, moe: str) -> Checkpoint:
    """The checkpoint of the labels: `moe` for routed experts, `gemm` for the rest.

    Rules, in this order:
    1. An empty label stands for the checkpoint's own precision.
    2. A checkpoint is itself where both labels agree with it, or ask for more bits than it has: nobody expands weights.
    3. Checkpoints of 4 bits keep what is no expert as it is, whatever `gemm` says: they quantise experts alone.
    4. `fp8_block` for either part, and `fp8` of a family of `OWN_BLOCKS`, is a checkpoint with block scales in all of
       its layers.

    Raises:
      ValueError: one line: a model that the catalogue does not have, or a mode that is not known.
    """
    for column, mode in (("gemm_quant_mode", gemm), ("moe_quant_mode", moe)):
        if mode and mode not in SCHEMES:
            raise ValueError(f"{column} = {mode!r} is not known; known: {', '.join(SCHEMES)}")
    own = workloads.model(name)
    routed = has_experts(own.model)
    # Rule 2: the checkpoint itself.
    if _says(own, gemm) and (not routed or _says(own, moe)):
        return Checkpoint(name)
    # Rule 3, or a label that agrees: all but the experts stays as the checkpoint has it.
    unchanged = _kind(own, gemm) or bits(own.precision) == 4
    checkpoint = Checkpoint(name) if unchanged else _whole(own, name, gemm, moe if routed else "")
    # Whether layers have a scale per block by now, as rule 4 says.
    blocked = workloads.model(*checkpoint).precision.startswith("fp8 (block")
    if not routed or not moe or (moe == gemm and not unchanged) or (moe == "fp8_block" and blocked):
        return checkpoint
    if _kind(own, moe) and unchanged:
        return checkpoint
    # The label of experts differs from that of the rest: both are named.
    experts = f"{EXPERTS}{EXPERT_NAMES[moe]}"
    return checkpoint._replace(weights=experts if checkpoint.weights is None else f"{checkpoint.weights},{experts}")


def precision_of(checkpoint: Checkpoint) -> str:
    """Precision of a checkpoint's weights in words."""
    return workloads.model(checkpoint.model, weights=checkpoint.weights).precision


def labelled_model(name: str, gemm: str, moe: str) -> workloads.ModelEntry:
    """The model of that checkpoint; ValueError as of `labelled`."""
    checkpoint = labelled(name, gemm, moe)
    return workloads.model(checkpoint.model, weights=checkpoint.weights)


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
    # 8-bit modes differ in their scales, which a checkpoint decides, so that their bits are enough.
    return _mode_bits(mode) == bits(own.precision) == 8


def _mode_bits(mode: str) -> int:
    scheme = SCHEMES[mode] if mode else None
    return 16 if scheme is None else scheme.bits


def _whole(own: workloads.ModelEntry, name: str, gemm: str, moe: str) -> Checkpoint:
    """The model with `gemm` in all linear layers."""
    # Publishers give block scales to all layers or to none.
    blocked = gemm == "fp8_block" or (moe == "fp8_block" and _mode_bits(gemm) == 8)
    blocked = blocked or (gemm == "fp8" and own.name.startswith(OWN_BLOCKS))
    # A checkpoint of that name with block scales is taken to exist but for these families.
    if blocked and not own.name.startswith(UNBLOCKED):
        return Checkpoint(f"{name}{BLOCKED}")
    return Checkpoint(name, "fp8" if blocked else WHOLE[gemm])
