"""Vision encoders as configs describe them: layers over patches, and a projector to the language model's width."""

import dataclasses
from collections.abc import Callable
from typing import Any

from jaxroof.layers.attention import Attention
from jaxroof.model import Block, Encoder, FeedForward, Projection, WeightFormat
from workloads.config import Config

COLOURS = 3.0
"""Numbers per pixel."""

PROJECTOR_KEYS = (
    "spatial_merge_size",
    "mm_tokens_per_image",
    "vision_feature_layer",
    "downsample_ratio",
    "max_dynamic_patch",
)
"""What configs say of the encoder's output beside `vision_config`."""

LLAVA_FEATURE_LAYER = -2  # published default of vision_feature_layer: the last layer is not run


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tower:
    """Sizes of an encoder whose layers differ at most in their window."""

    hidden: float
    layers: float
    heads: float
    head_dim: float
    intermediate: float
    inputs: float | None
    merged: float
    gated: bool = False
    attention_bias: bool = True
    ffn_bias: bool = True
    norm_bias: bool = True
    norms: float = 2.0  # norm vectors per layer
    qk_norm: bool = False
    scales: float = 0.0  # vectors per layer that scale its sublayers
    windowed_layers: float = 0.0
    window: float | None = None  # tokens in a window of those
    other_parameters: float = 0.0  # beside the layers


def encoder_of(tower: Tower, projector: list[tuple[float, float]], base: WeightFormat) -> Encoder:
    """An encoder of `tower`'s layers and of projections of (inputs, outputs), none of them quantised."""
    kinds = [(tower.layers - tower.windowed_layers, None), (tower.windowed_layers, tower.window)]
    return Encoder(
        hidden=tower.hidden,
        blocks=tuple(_block(tower, count, window, base) for count, window in kinds if count),
        inputs=tower.inputs,
        merged=tower.merged,
        projector=tuple(Projection(inputs=inputs, outputs=outputs, weights=base) for inputs, outputs in projector),
        embedding=base,
        other_parameters=tower.other_parameters,
    )


def _block(tower: Tower, count: float, window: float | None, base: WeightFormat) -> Block:
    width = tower.heads * tower.head_dim
    up = 2.0 if tower.gated else 1.0
    other = tower.hidden * (tower.norms * (1.0 + tower.norm_bias) + tower.scales)
    other += tower.attention_bias * (3.0 * width + tower.hidden)
    other += tower.ffn_bias * (up * tower.intermediate + tower.hidden)
    return Block(
        count=count,
        attention=Attention(
            heads=tower.heads,
            kv_heads=tower.heads,
            head_dim=tower.head_dim,
            value_dim=tower.head_dim,
            window=window,
            window_kind=None if window is None else "chunked",
            causal=False,
            qk_norm=float(tower.qk_norm),
            qkv=base,
            output=base,
        ),
        feedforward=FeedForward(intermediate=tower.intermediate, up_projections=up, up=base, down=base),
        norms=tower.norms / 2.0,
        other_parameters=other + tower.qk_norm * 2.0 * tower.head_dim,
    )


def vision_config(config: Config) -> Config | None:
    """The table of the vision encoder, or None where a config describes the language model alone.

    What some configs say of the projector beside the table is read as part of it.
    """
    vision = config.table("vision_config")
    if vision is None:
        return None
    beside = {key: config.value(key) for key in PROJECTOR_KEYS if config.value(key) is not None}
    return Config(vision.name, beside | {key: _side(value) for key, value in vision.values.items()})


def _side(value: Any) -> Any:
    """A size that some configs write once for rows and once for columns."""
    return value[0] if isinstance(value, list) and len(value) == 2 and value[0] == value[1] else value


def _qwen2_vl(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    width, merged = vision.count("embed_dim"), vision.count("spatial_merge_size", default=2) ** 2
    ratio = vision.count("mlp_ratio", default=4)
    tower = Tower(
        **_heads(vision, width, "num_heads"),
        layers=float(vision.count("depth")),
        intermediate=float(ratio * width),
        inputs=_patch_inputs(vision, 14, vision.count("temporal_patch_size", default=2)),
        merged=float(merged),
        other_parameters=2.0 * width + merged * width + hidden,
    )
    return encoder_of(tower, [(merged * tower.hidden,) * 2, (merged * tower.hidden, hidden)], base)


def _qwen2_5_vl(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    width, merged = vision.count("hidden_size"), vision.count("spatial_merge_size", default=2) ** 2
    layers, patch = vision.count("depth"), vision.count("patch_size", "spatial_patch_size", default=14)
    full = vision.layer_indices("fullatt_block_indexes", layers) or []
    side = vision.count("window_size", default=112) // patch
    tower = Tower(
        **_heads(vision, width, "num_heads"),
        layers=float(layers),
        windowed_layers=float(layers - len(set(full))),
        window=float(side * side),
        intermediate=float(vision.count("intermediate_size")),
        gated=True,
        norm_bias=False,
        inputs=_patch_inputs(vision, 14, vision.count("temporal_patch_size", default=2)),
        merged=float(merged),
        other_parameters=width + merged * width + hidden,
    )
    return encoder_of(tower, [(merged * tower.hidden,) * 2, (merged * tower.hidden, hidden)], base)


def _qwen3_vl(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    """Besides the last layer's output, those of some layers pass through projectors of their own."""
    width, merged = vision.count("hidden_size"), vision.count("spatial_merge_size", default=2) ** 2
    layers = vision.count("depth")
    extra = len(vision.layer_indices("deepstack_visual_indexes", layers) or [])
    wide = float(merged * width)
    positions = vision.count("num_position_embeddings", default=2304)
    tower = Tower(
        **_heads(vision, width, "num_heads"),
        layers=float(layers),
        intermediate=float(vision.count("intermediate_size")),
        inputs=_patch_inputs(vision, 16, vision.count("temporal_patch_size", default=2)),
        merged=float(merged),
        other_parameters=width * (1.0 + positions) + 2.0 * width + extra * 2.0 * wide + (1 + extra) * (wide + hidden),
    )
    return encoder_of(tower, [(wide, wide), (wide, hidden)] * (1 + extra), base)


def _siglip(vision: Config) -> Tower:
    """SigLIP without its pooling head: one token per patch, positions for each, a norm after the last layer."""
    width = vision.count("hidden_size")
    patches = (vision.count("image_size") // vision.count("patch_size")) ** 2
    return Tower(
        **_heads(vision, width, "num_attention_heads"),
        layers=float(vision.count("num_hidden_layers")),
        intermediate=float(vision.count("intermediate_size")),
        inputs=_patch_inputs(vision, 14),
        merged=1.0,
        other_parameters=width * (1.0 + patches) + 2.0 * width,
    )


def _gemma3(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    """Patches are averaged to 256 tokens before one projection."""
    tower = _siglip(vision)
    patches = (vision.count("image_size") // vision.count("patch_size")) ** 2
    tower = dataclasses.replace(
        tower,
        merged=patches / vision.count("mm_tokens_per_image", default=256),
        other_parameters=tower.other_parameters + tower.hidden,
    )
    return encoder_of(tower, [(tower.hidden, hidden)], base)


def _gemma4(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    width = vision.count("hidden_size")
    tower = Tower(
        **_heads(vision, width, "num_attention_heads"),
        layers=float(vision.count("num_hidden_layers")),
        intermediate=float(vision.count("intermediate_size")),
        gated=True,
        attention_bias=False,
        ffn_bias=False,
        norm_bias=False,
        norms=4.0,
        qk_norm=True,
        inputs=_patch_inputs(vision, 16),
        merged=float(vision.count("pooling_kernel_size", default=3) ** 2),
        other_parameters=2.0 * width * vision.count("position_embedding_size", default=10240) + 2.0 * width,
    )
    return encoder_of(tower, [(tower.hidden, hidden)], base)


def _pixtral(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    width = vision.count("hidden_size")
    merged = float(vision.count("spatial_merge_size", default=2) ** 2)
    tower = Tower(
        **_heads(vision, width, "num_attention_heads"),
        layers=float(vision.count("num_hidden_layers")),
        intermediate=float(vision.count("intermediate_size")),
        gated=True,
        attention_bias=False,
        ffn_bias=False,
        norm_bias=False,
        inputs=_patch_inputs(vision, 14),
        merged=merged,
        other_parameters=2.0 * width,
    )
    return encoder_of(tower, [(merged * width, float(width)), (float(width), hidden), (hidden, hidden)], base)


def _llama4(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    """Patches of one tile are merged by shuffling pixels."""
    tower = _siglip(vision)
    merged = 1.0 / vision.fraction("pixel_shuffle_ratio", 0.5) ** 2
    inner, outer = (float(vision.count(f"projector_{end}put_dim")) for end in ("in", "out"))
    tower = dataclasses.replace(tower, merged=merged, other_parameters=tower.other_parameters + 3.0 * tower.hidden)
    widths = [(merged * tower.hidden, inner), (inner, outer), (float(vision.count("vision_output_dim")), hidden)]
    return encoder_of(tower, widths, base)


def _llava(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    """CLIP without its last layer, and two projections."""
    tower = _siglip(vision)
    layer = vision.value("vision_feature_layer", default=LLAVA_FEATURE_LAYER)
    if type(layer) is not int or not -tower.layers <= layer <= -1:
        raise vision.error(f"vision_feature_layer is {layer!r}; it must be a layer counted from the last, -1 or below")
    skipped = -1.0 - layer
    tower = dataclasses.replace(
        tower,
        layers=tower.layers - skipped,
        other_parameters=tower.other_parameters + 3.0 * tower.hidden + 2.0 * hidden,
    )
    return encoder_of(tower, [(tower.hidden, hidden), (hidden, hidden)], base)


def _internvl(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    """InternViT: a class token that its output leaves out, scaled sublayers; patches of one tile are shuffled."""
    tower = _siglip(vision)
    merged = 1.0 / vision.fraction("downsample_ratio", 0.5) ** 2
    wide = merged * tower.hidden
    tower = dataclasses.replace(
        tower,
        merged=merged,
        attention_bias=vision.flag("qkv_bias", vision.flag("attention_bias", True)),
        scales=2.0,
        other_parameters=tower.other_parameters + 2.0 * wide + 2.0 * hidden,
    )
    return encoder_of(tower, [(wide, hidden), (hidden, hidden)], base)


def _moonvit(vision: Config, base: WeightFormat, hidden: float) -> Encoder:
    width, heads = vision.count("vt_hidden_size"), vision.count("vt_num_attention_heads")
    merged = float(vision.count("merge_kernel_size", default=2) ** 2)
    inner = vision.count("qkv_hidden_size", default=width)
    positions = vision.count("init_pos_emb_height", default=64) * vision.count("init_pos_emb_width", default=64)
    if inner % heads:
        raise vision.error(f"vt_num_attention_heads is {heads}; it must divide the width {inner} of the heads")
    norm_bias = vision.text("norm_type", default="layernorm") != "rmsnorm"
    tower = Tower(
        hidden=float(width),
        heads=float(heads),
        head_dim=float(inner // heads),
        layers=float(vision.count("vt_num_hidden_layers")),
        intermediate=float(vision.count("vt_intermediate_size")),
        attention_bias=vision.flag("attn_bias", True),
        ffn_bias=vision.flag("linear_bias", True),
        norm_bias=norm_bias,
        inputs=_patch_inputs(vision, 14),
        merged=merged,
        other_parameters=width * (1.0 + positions) + 4.0 * width + merged * width + hidden,
    )
    return encoder_of(tower, [(merged * width,) * 2, (merged * width, hidden)], base)


def _heads(vision: Config, width: int, key: str) -> dict[str, Any]:
    heads = vision.count(key)
    if width % heads:
        raise vision.error(f"{key} is {heads}; it must divide the width {width}")
    return {"hidden": float(width), "heads": float(heads), "head_dim": width / heads}


def _patch_inputs(vision: Config, default: int, frames: int = 1) -> float:
    return COLOURS * frames * vision.count("patch_size", "spatial_patch_size", default=default) ** 2


VISION: dict[str, Callable[[Config, WeightFormat, float], Encoder]] = {
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "pixtral": _pixtral,
    "llama4": _llama4,
    "llava": _llava,
    "internvl": _internvl,
    "moonvit": _moonvit,
}
"""`Family.encoder` -> the encoder of a `vision_config`, given the width of the language model."""


def vision_encoder(config: Config, kind: str, base: WeightFormat, hidden: float) -> Encoder | None:
    """The vision encoder of a config, or None where it describes the language model alone.

    Counted and priced apart from the language model; encoders are left unquantised by the published checkpoints.

    Raises:
      ValueError: a missing or wrong size, by its key.
    """
    vision = vision_config(config)
    return None if vision is None else VISION[kind](vision, base, hidden)
