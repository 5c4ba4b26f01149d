"""Encoders of identical layers and a projector, counted from their sizes."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

from jaxroof.layers.attention import Attention
from jaxroof.model import Block, Encoder, FeedForward, Projection, WeightFormat
from workloads.config import Config
from workloads.models.coverage import Reading
from workloads.models.images import ImageTokens
from workloads.models.layer import HIDDEN_KEYS


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tower:
    """Sizes of an encoder whose layers differ at most in their window."""

    hidden: float
    layers: float
    heads: float
    head_dim: float
    intermediate: float
    inputs: float | None
    merged: float = 1.0
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


UNBIASED: dict[str, Any] = dict.fromkeys(("attention_bias", "ffn_bias", "norm_bias"), False)
"""Traits of a tower without biases."""


def encoder_of(tower: Tower, projector: list[tuple[float, float]], base: WeightFormat) -> Encoder:
    """An encoder of `tower`'s layers and of projections of (inputs, outputs), none of them quantised."""
    # Windowed and full layers are two blocks: their attention differs.
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
    # Norm vectors with or without bias, and vectors that scale the sublayers' results.
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
            # Windows of an image are tiles of its grid: tokens see their own tile, as in chunked attention.
            window_kind=None if window is None else "chunked",
            causal=False,
            qk_norm=float(tower.qk_norm),
            qkv=base,
            output=base,
        ),
        feedforward=FeedForward(intermediate=tower.intermediate, up_projections=up, up=base, down=base),
        # Two norms per layer are the usual: one before each sublayer.
        norms=tower.norms / 2.0,
        other_parameters=other + tower.qk_norm * 2.0 * tower.head_dim,
    )


# Vision encoders as configs describe them: layers over patches, a projector, and how they turn images into tokens.


COLOURS = 3.0
"""Numbers per pixel."""

MOST_TILES = 64
"""More tiles than any preprocessing cuts an image into."""

PROJECTOR_KEYS = (
    "spatial_merge_size",
    "mm_tokens_per_image",
    "vision_feature_layer",
    "downsample_ratio",
    "max_dynamic_patch",
)
"""What configs say of the encoder's output beside `vision_config`."""

SIGLIP_NAMES = ("num_attention_heads", "num_hidden_layers")
"""What most encoders call their numbers of heads and layers."""

LLAVA_FEATURE_LAYER = -2  # published default of vision_feature_layer: the last layer is not run


@dataclasses.dataclass(frozen=True)
class Vision:
    """A vision encoder."""

    tower: Tower
    projector: list[tuple[float, float]]  # inputs and outputs of the projections after it
    images: ImageTokens  # sizes are the config's, limits those of the published preprocessing


def _qwen2_vl(vision: Config, hidden: float) -> Vision:
    width = vision.number("embed_dim")
    intermediate = vision.count("mlp_ratio", default=4) * width
    tower = _qwen(vision, width, 14, intermediate=intermediate, other_parameters=2.0 * width)
    return _with_merger(vision, tower, hidden)


def _qwen2_5_vl(vision: Config, hidden: float) -> Vision:
    width = vision.number("hidden_size")
    tower = _qwen(vision, width, 14, gated=True, norm_bias=False, other_parameters=width)
    full = vision.layer_indices("fullatt_block_indexes", int(tower.layers)) or []
    # A window is given in pixels: side in patches, squared.
    side = vision.count("window_size", default=112) // _patch(vision, 14)
    tower = dataclasses.replace(tower, windowed_layers=tower.layers - len(set(full)), window=float(side * side))
    return _with_merger(vision, tower, hidden)


def _with_merger(vision: Config, tower: Tower, hidden: float) -> Vision:
    """A tower of Qwen2's and the two projections of its merged patches."""
    # Merging concatenates a square of patches.
    wide = tower.merged * tower.hidden
    images = _qwen_images(vision, 14, 56 * 56, 28 * 28 * 16384)
    return Vision(_more(tower, wide + hidden), [(wide, wide), (wide, hidden)], images)


def _qwen3_vl(vision: Config, hidden: float) -> Vision:
    """Besides the last layer's output, those of some layers pass through projectors of their own."""
    width = vision.number("hidden_size")
    tower = _qwen(vision, width, 16)
    extra = len(vision.layer_indices("deepstack_visual_indexes", int(tower.layers)) or [])
    wide = tower.merged * width
    positions = vision.count("num_position_embeddings", default=2304)
    # Bias of the patch embedding, positions, norm of the merger; wider norms of the further mergers; biases of all
    # projections.
    other = width * (1.0 + positions) + 2.0 * width + extra * 2.0 * wide + (1 + extra) * (wide + hidden)
    images = _qwen_images(vision, 16, 256 * 256, 4096 * 4096)
    return Vision(_more(tower, other), [(wide, wide), (wide, hidden)] * (1 + extra), images)


def _gemma3(vision: Config, hidden: float) -> Vision:
    """Patches are averaged to 256 tokens before one projection."""
    tower, sides, tokens = _siglip(vision), _sides(vision), vision.count("mm_tokens_per_image", default=256)
    # Average pooling: the merge follows from patches and tokens.
    images = ImageTokens(rule="fixed", **sides, merge=int(sides["side"] // sides["patch"] / math.sqrt(tokens)))
    return Vision(_more(tower, tower.hidden, merged=_patches(vision) / tokens), [(tower.hidden, hidden)], images)


def _gemma4(vision: Config, hidden: float) -> Vision:
    width, merge = vision.number("hidden_size"), vision.count("pooling_kernel_size", default=3)
    tower = _tower(
        vision,
        width,
        16,
        **UNBIASED,
        gated=True,
        norms=4.0,
        qk_norm=True,
        merged=float(merge**2),
        other_parameters=2.0 * width * vision.count("position_embedding_size", default=10240) + 2.0 * width,
    )
    most_patches = vision.count("default_output_length", default=280) * merge**2
    images = ImageTokens(rule="budget", patch=_patch(vision, 16), merge=merge, most_patches=most_patches)
    return Vision(tower, [(width, hidden)], images)


def _pixtral(vision: Config, hidden: float) -> Vision:
    width, merge = vision.number("hidden_size"), vision.count("spatial_merge_size", default=2)
    wide = float(merge**2) * width
    tower = _tower(vision, width, 14, **UNBIASED, gated=True, merged=float(merge**2), other_parameters=2.0 * width)
    side = vision.count("image_size", default=1540)
    images = ImageTokens(rule="rows", patch=_patch(vision, 14), merge=merge, side=side)
    return Vision(tower, [(wide, width), (width, hidden), (hidden, hidden)], images)


def _llama4(vision: Config, hidden: float) -> Vision:
    """Patches of one tile are merged by shuffling pixels."""
    tower, ratio = _siglip(vision), vision.fraction("pixel_shuffle_ratio", 0.5)
    # Pixel shuffle moves a square of pixels into channels: fewer, wider tokens.
    merged = 1.0 / ratio**2
    inner, outer = (vision.number(f"projector_{end}put_dim") for end in ("in", "out"))
    widths = [(merged * tower.hidden, inner), (inner, outer), (vision.number("vision_output_dim"), hidden)]
    images = ImageTokens(rule="tiles", **_sides(vision), merge=round(1.0 / ratio), most_tiles=16, class_tokens=1)
    return Vision(_more(tower, 3.0 * tower.hidden, merged=merged), widths, images)


def _llava(vision: Config, hidden: float) -> Vision:
    """CLIP without its last layer, and two projections."""
    tower = _siglip(vision)
    layer = vision.value("vision_feature_layer", default=LLAVA_FEATURE_LAYER)
    # -2 means that the last layer is not run.
    if type(layer) is not int or not -tower.layers <= layer <= -1:
        raise vision.error(f"vision_feature_layer is {layer!r}; it must be a layer counted from the last, -1 or below")
    tower = _more(tower, 3.0 * tower.hidden + 2.0 * hidden, layers=tower.layers + layer + 1.0)
    images = ImageTokens(rule="fixed", **_sides(vision), class_tokens=1)
    return Vision(tower, [(tower.hidden, hidden), (hidden, hidden)], images)


def _internvl(vision: Config, hidden: float) -> Vision:
    """InternViT: a class token that its output leaves out, scaled sublayers; patches of one tile are shuffled."""
    tower, ratio = _siglip(vision), vision.fraction("downsample_ratio", 0.5)
    merged = 1.0 / ratio**2
    wide = merged * tower.hidden
    bias = vision.flag("qkv_bias", vision.flag("attention_bias", True))
    tower = _more(tower, 2.0 * wide + 2.0 * hidden, merged=merged, attention_bias=bias, scales=2.0)
    tiles = min(vision.count("max_dynamic_patch", default=12), MOST_TILES)
    images = ImageTokens(rule="aspect", **_sides(vision), merge=round(1.0 / ratio), most_tiles=tiles, class_tokens=1)
    return Vision(tower, [(wide, hidden), (hidden, hidden)], images)


def _moonvit(vision: Config, hidden: float) -> Vision:
    width, heads = vision.number("vt_hidden_size"), vision.count("vt_num_attention_heads")
    merge, patch = vision.count("merge_kernel_size", default=2), _patch(vision, 14)
    wide = float(merge**2) * width
    inner = vision.count("qkv_hidden_size", default=int(width))
    positions = vision.count("init_pos_emb_height", default=64) * vision.count("init_pos_emb_width", default=64)
    if inner % heads:
        raise vision.error(f"vt_num_attention_heads is {heads}; it must divide the width {inner} of the heads")
    tower = Tower(
        hidden=width,
        heads=float(heads),
        head_dim=float(inner // heads),
        layers=vision.number("vt_num_hidden_layers"),
        intermediate=vision.number("vt_intermediate_size"),
        attention_bias=vision.flag("attn_bias", True),
        ffn_bias=vision.flag("linear_bias", True),
        norm_bias=vision.text("norm_type", default="layernorm") != "rmsnorm",
        inputs=COLOURS * patch**2,
        merged=float(merge**2),
        other_parameters=width * (1.0 + positions) + 4.0 * width + wide + hidden,
    )
    images = ImageTokens(rule="padded", patch=patch, merge=merge, most_patches=16384, side=512 * patch)
    return Vision(tower, [(wide, wide), (wide, hidden)], images)


def _tower(
    vision: Config, width: float, patch: int, names: tuple[str, str] = SIGLIP_NAMES, frames: int = 1, **traits: Any
) -> Tower:
    """A tower of `width`; `patch` is the published default of a patch's side, `names` those of heads and layers."""
    heads_key, layers_key = names
    heads = vision.count(heads_key)
    # Heads split the width evenly.
    if width % heads:
        raise vision.error(f"{heads_key} is {heads}; it must divide the width {width:.0f}")
    if "intermediate" not in traits:
        traits["intermediate"] = vision.number("intermediate_size")
    return Tower(
        hidden=width,
        heads=float(heads),
        head_dim=width / heads,
        layers=vision.number(layers_key),
        inputs=COLOURS * frames * _patch(vision, patch) ** 2,
        **traits,
    )


def _qwen(vision: Config, width: float, patch: int, **traits: Any) -> Tower:
    """A tower with Qwen's names of sizes; it sees an image as so many equal frames."""
    merged, frames = vision.number("spatial_merge_size", default=2) ** 2, vision.count("temporal_patch_size", default=2)
    return _tower(vision, width, patch, ("num_heads", "depth"), frames, merged=merged, **traits)


def _qwen_images(vision: Config, patch: int, least_pixels: int, most_pixels: int) -> ImageTokens:
    return ImageTokens(
        rule="rounded",
        patch=_patch(vision, patch),
        merge=vision.count("spatial_merge_size", default=2),
        least_pixels=least_pixels,
        most_pixels=most_pixels,
    )


def _siglip(vision: Config) -> Tower:
    """SigLIP without its pooling head: one token per patch, positions for each, a norm after the last layer."""
    width = vision.number("hidden_size")
    return _tower(vision, width, 14, other_parameters=width * (1.0 + _patches(vision)) + 2.0 * width)


def _more(tower: Tower, parameters: float, **traits: Any) -> Tower:
    """The tower with other traits and more parameters beside its layers."""
    return dataclasses.replace(tower, other_parameters=tower.other_parameters + parameters, **traits)


def _patches(vision: Config) -> int:
    """Patches of an image of the one size that is seen."""
    return (vision.count("image_size") // vision.count("patch_size")) ** 2


def _sides(vision: Config) -> dict[str, int]:
    """Sides of an image, or a tile of one, and of a patch of it, in pixels."""
    return {"side": vision.count("image_size"), "patch": vision.count("patch_size")}


def _patch(vision: Config, default: int) -> int:
    return vision.count("patch_size", "spatial_patch_size", default=default)


VISION: dict[str, Callable[[Config, float], Vision]] = {
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


def vision_encoder(reading: Reading) -> Vision | None:
    """The vision encoder of a model, or None where its config describes the language model alone.

    Counted and priced apart from the language model; encoders are left unquantised by the published checkpoints.

    Raises:
      ValueError: a missing or wrong size, by its key.
    """
    config, family, text = reading.config, reading.family, reading.text
    table = config.table("vision_config")
    if table is None or family.encoder not in VISION:
        return None
    # What some configs say of the projector beside the table is read as part of it.
    beside = {key: config.value(key) for key in PROJECTOR_KEYS if config.value(key) is not None}
    values = beside | {key: _side(value) for key, value in table.values.items()}
    return VISION[family.encoder](Config(table.name, values), text.number(*HIDDEN_KEYS))


def _side(value: Any) -> Any:
    """A size that some configs write once for rows and once for columns."""
    return value[0] if isinstance(value, list) and len(value) == 2 and value[0] == value[1] else value
