"""Storage of modules by the `quantization` table that MLX writes into a config: bits and groups, module by module."""

from workloads import formats
from workloads.config import Config
from workloads.formats import FP16_SCALE, Scheme
from workloads.storage import Assignment, Quantization, named

GROUP, BITS = 64, 4
"""Weights per group and bits of one where a table does not say: defaults of mlx.nn.quantize."""

AFFINE_BITS = (2, 3, 4, 5, 6, 8)
"""Bits of a weight in the affine mode."""

FLOATS = {
    "mxfp4": formats.mxfp4,
    "mxfp8": lambda: formats.mxfp8(None),
    "nvfp4": lambda: formats.nvfp4(activations=None),
}
"""Modes of floating-point weights; their bits and groups are fixed."""

SETTINGS = ("group_size", "bits", "mode", "quant_method", "linear_class", "quantization_mode")
"""Keys of a table that are not the names of modules."""


def affine(bits: int, group: int) -> Scheme:
    """Integer weights with a 16-bit scale and a 16-bit bias per group. Layers that groups do not divide stay as is."""
    stored = bits / 8.0 + 2.0 * FP16_SCALE / group
    return Scheme(stored, None, f"mlx {bits} bit (group {group})", bits, whole_groups=group)


def stored_as(scheme: Scheme, overrides: tuple[Assignment, ...] = ()) -> Quantization:
    """A model that MLX stores as `scheme` but for `overrides`: table of tokens, head and routers too."""
    return Quantization((*overrides, (None, scheme)), head=True, embedding=True, router=True, apart=True)


def quantization(config: Config) -> Quantization:
    """The storage that a `quantization` table declares.

    Source: ml-explore/mlx-lm, mlx_lm/utils.py (quantize_model, load_model) and mlx, python/mlx/nn/layers/quantized.py.

    Raises:
      ValueError: an unknown mode, bits that MLX does not store, or an entry that is no module's.
    """
    overrides: list[Assignment] = []
    usual = _scheme(config)
    for name, value in config.values.items():
        if name in SETTINGS or value is True:
            config.own(name)
            continue
        if value is False:
            config.own(name)
            overrides.append((named(config, [_path(name)]), None))
            continue
        own = config.own_table(name)
        if own is not None:
            overrides.append((named(config, [_path(name)]), _scheme(own)))
    return stored_as(usual, tuple(overrides))


def _path(name: str) -> str:
    """A module's name as others write it: MLX keeps all experts of a layer in one."""
    return name.replace(".switch_mlp.", ".experts.*.")


def _scheme(config: Config) -> Scheme:
    mode = config.text("mode", default="affine")
    if mode in FLOATS:
        config.value("bits"), config.value("group_size")
        return FLOATS[mode]()
    if mode != "affine":
        raise config.error(f"mode is {mode!r}; it must be affine, {', '.join(FLOATS)}")
    bits = config.count("bits", default=BITS)
    if bits not in AFFINE_BITS:
        raise config.error(f"bits is {bits}; it must be one of {', '.join(map(str, AFFINE_BITS))}")
    return affine(bits, config.count("group_size", default=GROUP))
