"""Tokens of an image, in the encoder and in the language model."""

import dataclasses
import itertools
import math

from workloads.config import Config
from workloads.coverage import language_model
from workloads.encoders import vision_config

MOST_RATIO = 200.0
"""Sides of an image may differ by this factor; Qwen's published preprocessing refuses more."""

MOST_TILES = 64
"""More tiles than any preprocessing cuts an image into."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageTokens:
    """Rule by which one family turns an image into tokens. Sides in pixels."""

    rule: str  # a key of `RULES`
    patch: int  # side of a patch
    merge: int = 1  # patches along a side that become one token of the language model
    least_pixels: int = 0
    most_pixels: int = 0  # of a resized image
    most_patches: int = 0  # of a resized image
    side: int = 0  # of a fixed image or a tile, or the longest one
    most_tiles: int = 1
    class_tokens: int = 0  # tokens of the encoder beside patches, that the language model does not see


@dataclasses.dataclass(frozen=True)
class ImageCount:
    """Tokens of one image."""

    encoder: float  # patches, over all tiles
    language: float  # that take a place in the language model's context


def image_tokens(config: Config) -> ImageTokens | None:
    """Rule by which a config's model turns images into tokens, or None where it sees none.

    Sizes are the config's, limits those of the published preprocessing.
    """
    family, _ = language_model(config)
    vision = vision_config(config)
    if vision is None or family.encoder not in FAMILIES:
        return None
    return FAMILIES[family.encoder](vision)


def encoder_tokens(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Tokens of one image of `width` x `height` pixels.

    Raises:
      ValueError: a side that is not positive, or sides that differ by more than a factor of 200.
    """
    if min(width, height) < 1 or not math.isfinite(width * height):
        raise ValueError(f"an image of {width} x {height} pixels; both sides must be at least 1")
    if max(width, height) > MOST_RATIO * min(width, height):
        raise ValueError(f"an image of {width} x {height} pixels; its sides may differ by a factor of {MOST_RATIO:.0f}")
    return RULES[images.rule](images, width, height)


def _fixed(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Every image is resized to one size."""
    patches = (images.side // images.patch) ** 2
    return ImageCount(float(patches + images.class_tokens), patches / images.merge**2)


def _rounded(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Sides are rounded to whole merged patches, and scaled where pixels are too many or too few."""
    unit = images.patch * images.merge
    sides = [max(unit, round(side / unit) * unit) for side in (width, height)]
    if math.prod(sides) > images.most_pixels:
        scale = math.sqrt(width * height / images.most_pixels)
        sides = [max(unit, math.floor(side / scale / unit) * unit) for side in (width, height)]
    elif math.prod(sides) < images.least_pixels:
        scale = math.sqrt(images.least_pixels / (width * height))
        sides = [math.ceil(side * scale / unit) * unit for side in (width, height)]
    return _merged(images, sides)


def _budget(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Images are scaled to as many patches as are allowed, sides rounded down to whole pooled patches."""
    unit = images.patch * images.merge
    scale = math.sqrt(images.most_patches * images.patch**2 / (width * height))
    longest = images.most_patches // images.merge**2 * unit
    sides = [math.floor(side * scale / unit) * unit for side in (width, height)]
    for this, other in ((0, 1), (1, 0)):
        if not sides[this]:
            ratio = (width, height)[other] // (width, height)[this]
            sides[this], sides[other] = unit, min(ratio * unit, longest)
    return _merged(images, sides)


def _padded(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Sides are scaled down to the limits and padded to whole merged patches."""
    unit = images.patch * images.merge
    columns, rows = (max(1, side // images.patch) for side in (width, height))
    limits = [math.sqrt(images.most_patches / (columns * rows)), images.side / width, images.side / height]
    scale = min(1.0, *limits)
    sides = [math.ceil(max(1, int(side * scale)) / unit) * unit for side in (width, height)]
    return _merged(images, sides)


def _rows(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Sides are scaled down to the longest one and rounded up; the language model sees a mark after every row."""
    unit = images.patch * images.merge
    scale = min(1.0, images.side / max(width, height))
    columns, rows = (math.ceil(math.floor(side * scale) / unit) or 1 for side in (width, height))
    return ImageCount(float(columns * rows * images.merge**2), float(rows * (columns + 1)))


def _tiles(images: ImageTokens, width: int, height: int) -> ImageCount:
    """The grid of tiles that enlarges the image least, else shrinks it least; with several, the whole image too."""
    scales = {grid: min(grid[0] * images.side / width, grid[1] * images.side / height) for grid in _grids(images)}
    enlarging = [scale for scale in scales.values() if scale >= 1.0]
    chosen = min(enlarging) if enlarging else max(scales.values())
    tiles = min(columns * rows for (columns, rows), scale in scales.items() if scale == chosen)
    one = _fixed(images, width, height)
    tiles += tiles > 1
    return ImageCount(tiles * one.encoder, tiles * one.language)


def _aspect(images: ImageTokens, width: int, height: int) -> ImageCount:
    """The grid of tiles nearest in shape (of two, the larger where the image fills half), then the whole image."""
    grids = sorted(_grids(images), key=math.prod)
    best, chosen = math.inf, (1, 1)
    for columns, rows in grids:
        difference = abs(width / height - columns / rows)
        fills = width * height > 0.5 * images.side**2 * columns * rows
        if difference < best or (difference == best and fills):
            best, chosen = difference, (columns, rows)
    tiles = math.prod(chosen)
    one = _fixed(images, width, height)
    tiles += tiles > 1
    return ImageCount(tiles * one.encoder, tiles * one.language)


def _grids(images: ImageTokens) -> list[tuple[int, int]]:
    sides = range(1, images.most_tiles + 1)
    return [grid for grid in itertools.product(sides, repeat=2) if math.prod(grid) <= images.most_tiles]  # type: ignore[misc]


def _merged(images: ImageTokens, sides: list[int]) -> ImageCount:
    patches = math.prod(side // images.patch for side in sides)
    return ImageCount(float(patches), patches / images.merge**2)


RULES = {
    "fixed": _fixed,
    "rounded": _rounded,
    "budget": _budget,
    "padded": _padded,
    "rows": _rows,
    "tiles": _tiles,
    "aspect": _aspect,
}
"""`ImageTokens.rule` -> tokens of one image."""


def _qwen(least_pixels: int, most_pixels: int, patch: int):
    def read(vision: Config) -> ImageTokens:
        return ImageTokens(
            rule="rounded",
            patch=vision.count("patch_size", "spatial_patch_size", default=patch),
            merge=vision.count("spatial_merge_size", default=2),
            least_pixels=least_pixels,
            most_pixels=most_pixels,
        )

    return read


def _gemma3(vision: Config) -> ImageTokens:
    side, patch = vision.count("image_size"), vision.count("patch_size")
    merge = side // patch / math.sqrt(vision.count("mm_tokens_per_image", default=256))
    return ImageTokens(rule="fixed", patch=patch, side=side, merge=int(merge))


def _gemma4(vision: Config) -> ImageTokens:
    merge = vision.count("pooling_kernel_size", default=3)
    tokens = vision.count("default_output_length", default=280)
    patch = vision.count("patch_size", default=16)
    return ImageTokens(rule="budget", patch=patch, merge=merge, most_patches=tokens * merge**2)


def _pixtral(vision: Config) -> ImageTokens:
    merge, side = vision.count("spatial_merge_size", default=2), vision.count("image_size", default=1540)
    return ImageTokens(rule="rows", patch=vision.count("patch_size", default=14), merge=merge, side=side)


def _llama4(vision: Config) -> ImageTokens:
    merge = round(1.0 / vision.fraction("pixel_shuffle_ratio", 0.5))
    side, patch = vision.count("image_size"), vision.count("patch_size")
    return ImageTokens(rule="tiles", patch=patch, merge=merge, side=side, most_tiles=16, class_tokens=1)


def _llava(vision: Config) -> ImageTokens:
    side, patch = vision.count("image_size"), vision.count("patch_size")
    return ImageTokens(rule="fixed", patch=patch, side=side, class_tokens=1)


def _internvl(vision: Config) -> ImageTokens:
    merge = round(1.0 / vision.fraction("downsample_ratio", 0.5))
    side, patch = vision.count("image_size"), vision.count("patch_size")
    tiles = min(vision.count("max_dynamic_patch", default=12), MOST_TILES)
    return ImageTokens(rule="aspect", patch=patch, merge=merge, side=side, most_tiles=tiles, class_tokens=1)


def _moonvit(vision: Config) -> ImageTokens:
    patch, merge = vision.count("patch_size", default=14), vision.count("merge_kernel_size", default=2)
    return ImageTokens(rule="padded", patch=patch, merge=merge, most_patches=16384, side=512 * patch)


FAMILIES = {
    "qwen2_vl": _qwen(56 * 56, 28 * 28 * 16384, 14),
    "qwen2_5_vl": _qwen(56 * 56, 28 * 28 * 16384, 14),
    "qwen3_vl": _qwen(256 * 256, 4096 * 4096, 16),
    "gemma3": _gemma3,
    "gemma4": _gemma4,
    "pixtral": _pixtral,
    "llama4": _llama4,
    "llava": _llava,
    "internvl": _internvl,
    "moonvit": _moonvit,
}
"""`Family.encoder` -> how it turns images into tokens. Limits are those of the published preprocessor configs."""
