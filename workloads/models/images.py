"""Tokens of an image, in the encoder and in the language model."""

import dataclasses
import math
from collections.abc import Sequence

MOST_RATIO = 200.0
"""Sides of an image may differ by this factor; Qwen's published preprocessing refuses more."""


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
    """Tokens of one image, or of several together."""

    encoder: float  # patches, over all tiles
    language: float  # that take a place in the language model's context
    inputs: float = 1.0  # of the encoder, whose tokens do not see those of the others: tiles


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


def image_sizes(text: str, key: str = "image") -> tuple[tuple[int, int], ...]:
    """Sizes in pixels of "1024x768", or of a list of such with commas.

    Args:
      key: what the text is the value of, for errors.

    Raises:
      ValueError: one line, for what is no size.
    """
    return tuple(_size(part.strip(), key) for part in text.split(","))


def _size(text: str, key: str) -> tuple[int, int]:
    width, cross, height = text.partition("x")
    if not (cross and all(side.isascii() and side.isdigit() and int(side) for side in (width, height))):
        raise ValueError(f"{key} = {text!r} must be WIDTHxHEIGHT in pixels, such as 1024x768")
    return int(width), int(height)


def prompt_images(images: ImageTokens, sizes: Sequence[tuple[int, int]], count: int = 1) -> ImageCount:
    """Tokens of `count` images of every size in pixels, together.

    Raises:
      ValueError: as of `encoder_tokens`.
    """
    each = [encoder_tokens(images, width, height) for width, height in sizes]
    names = [field.name for field in dataclasses.fields(ImageCount)]
    return ImageCount(**{name: count * sum(getattr(one, name) for one in each) for name in names})


def _fixed(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Every image is resized to one size."""
    # Only patches are merged; a class token is dropped before.
    patches = (images.side // images.patch) ** 2
    return ImageCount(float(patches + images.class_tokens), patches / images.merge**2)


def _rounded(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Sides are rounded to whole merged patches, and scaled where pixels are too many or too few."""
    unit = images.patch * images.merge
    sides = [max(unit, round(side / unit) * unit) for side in (width, height)]
    if math.prod(sides) > images.most_pixels:
        # The area is scaled, so each side by the root.
        scale = math.sqrt(width * height / images.most_pixels)
        sides = [max(unit, math.floor(side / scale / unit) * unit) for side in (width, height)]
    elif math.prod(sides) < images.least_pixels:
        scale = math.sqrt(images.least_pixels / (width * height))
        sides = [math.ceil(side * scale / unit) * unit for side in (width, height)]
    return _merged(images, sides)


def _budget(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Images are scaled to as many patches as are allowed, sides rounded down to whole pooled patches."""
    # As many patches as the budget allows, with the aspect ratio kept.
    unit = images.patch * images.merge
    scale = math.sqrt(images.most_patches * images.patch**2 / (width * height))
    longest = images.most_patches // images.merge**2 * unit
    sides = [math.floor(side * scale / unit) * unit for side in (width, height)]
    # A side below one patch is raised to one; the other follows the ratio.
    for this, other in ((0, 1), (1, 0)):
        if not sides[this]:
            ratio = (width, height)[other] // (width, height)[this]
            sides[this], sides[other] = unit, min(ratio * unit, longest)
    return _merged(images, sides)


def _padded(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Sides are scaled down to the limits and padded to whole merged patches."""
    unit = images.patch * images.merge
    columns, rows = (max(1, side // images.patch) for side in (width, height))
    # Three limits: patches in all, and each side.
    limits = [math.sqrt(images.most_patches / (columns * rows)), images.side / width, images.side / height]
    scale = min(1.0, *limits)
    sides = [math.ceil(max(1, int(side * scale)) / unit) * unit for side in (width, height)]
    return _merged(images, sides)


def _rows(images: ImageTokens, width: int, height: int) -> ImageCount:
    """Sides are scaled down to the longest one and rounded up; the language model sees a mark after every row."""
    unit = images.patch * images.merge
    scale = min(1.0, images.side / max(width, height))
    columns, rows = (math.ceil(math.floor(side * scale) / unit) or 1 for side in (width, height))
    # One mark per row of merged patches.
    return ImageCount(float(columns * rows * images.merge**2), float(rows * (columns + 1)))


def _tiles(images: ImageTokens, width: int, height: int) -> ImageCount:
    """The grid of tiles that enlarges the image least, else shrinks it least; with several, the whole image too."""
    scales = {grid: min(grid[0] * images.side / width, grid[1] * images.side / height) for grid in _grids(images)}
    # Of grids that need no shrinking the one that enlarges least, for sharpness at the least tokens.
    enlarging = [scale for scale in scales.values() if scale >= 1.0]
    chosen = min(enlarging) if enlarging else max(scales.values())
    return _tiled(images, min(columns * rows for (columns, rows), scale in scales.items() if scale == chosen))


def _aspect(images: ImageTokens, width: int, height: int) -> ImageCount:
    """The grid of tiles nearest in shape (of two, the larger where the image fills half), then the whole image."""
    grids = sorted(_grids(images), key=math.prod)
    best, chosen = math.inf, (1, 1)
    for columns, rows in grids:
        difference = abs(width / height - columns / rows)
        # A larger grid of the same shape is worth it only if the image fills half of it.
        fills = width * height > 0.5 * images.side**2 * columns * rows
        if difference < best or (difference == best and fills):
            best, chosen = difference, (columns, rows)
    return _tiled(images, math.prod(chosen))


def _tiled(images: ImageTokens, tiles: int) -> ImageCount:
    """Tokens of `tiles` tiles, and where there are several, of the whole image at the size of one."""
    one = _fixed(images, images.side, images.side)
    # A thumbnail gives the language model the whole picture.
    tiles += tiles > 1
    return ImageCount(tiles * one.encoder, tiles * one.language, float(tiles))


def _grids(images: ImageTokens) -> list[tuple[int, int]]:
    sides = range(1, images.most_tiles + 1)
    return [(one, other) for one in sides for other in sides if one * other <= images.most_tiles]


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
