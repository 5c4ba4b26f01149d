"""Number formats of weights: bytes per weight, scales included, and the matrix unit that multiplies it."""

import dataclasses

from jaxroof.model import WeightFormat

FP16_SCALE = 2.0  # B, one scale of GPTQ, AWQ and pack-quantized groups
FP32_SCALE = 4.0  # B, one scale of an FP8 block
E8M0_SCALE = 1.0  # B, one shared exponent of an MX block: OCP Microscaling Formats v1.0, section 5.1
FP8_SCALE = 1.0  # B, one E4M3 scale of an NVFP4 group
MX_GROUP = 32  # weights per MX block: OCP Microscaling Formats v1.0, section 5.1
NVFP4_GROUP = 16  # weights per NVFP4 group, as ModelOpt writes it


MATRIX_BITS = {"fp8": 8, "int8": 8, "fp4": 4}
"""Bits of a matrix unit's operands, of those that quantised activations are for."""


@dataclasses.dataclass(frozen=True)
class Scheme:
    """A quantised format. Scales per tensor or per output channel are left out: below 0.1 % of the weights."""

    bytes: float  # B per weight as stored
    compute: str | None  # precision of the matrix product; None: that of the 16-bit activations
    label: str
    bits: int  # of a weight, without scales
    scaled: bool = False  # scales per block of weights and activations, which the kernel applies between products
    calibrated: bool = False  # scales of activations are in the checkpoint, none is taken as the model runs
    whole_groups: int = 0  # weights of a group, where layers that they do not divide stay unquantised; 0: none do
    convertible: bool = False  # engines convert weights to 16 bits on devices that do not multiply at `compute`
    padded: bool = False  # kernels pad both sides of experts to multiples of their tiles

    @property
    def dequantised(self) -> bool:
        """True where weights have fewer bits than what they are multiplied with: the kernel converts them."""
        return self.compute is None or self.bits < MATRIX_BITS[self.compute]

    def weight_format(self, base: WeightFormat) -> WeightFormat:
        """The format of a weight whose checkpoint keeps activations in `base`."""
        return WeightFormat(
            bytes=self.bytes,
            compute=self.compute or base.compute,
            dequantised=self.dequantised,
            scaled=self.scaled,
            calibrated=self.calibrated,
            # On devices that do not multiply at this precision engines convert the weights to that of the rest.
            fallback=base.compute if self.convertible and self.compute not in (None, base.compute) else None,
            padded=self.padded,
        )


DTYPES = {
    "bfloat16": ("bf16", 2.0),
    "float16": ("fp16", 2.0),
    "half": ("fp16", 2.0),
    "float32": ("fp32", 4.0),
}
"""`torch_dtype` -> matrix precision and B per weight."""


def fp8(block: tuple[int, int] | None = None, activations: str | None = "fp8", calibrated: bool = False) -> Scheme:
    """FP8 weights: one float32 scale per `block` of rows and columns, or per tensor or channel without a block.

    `calibrated`: the checkpoint has one scale per tensor of activations too.
    """
    if block is None and calibrated and activations:
        # With scales of activations in the checkpoint none is computed as the model runs.
        return Scheme(1.0, activations, "fp8 (static scales)", 8, calibrated=True, convertible=True)
    if block is None:
        return Scheme(1.0, activations, "fp8" if activations else "fp8 (weights only)", 8, convertible=True)
    rows, columns = block
    note = f"block {rows}x{columns}" + ("" if activations else ", weights only")
    # B per weight: its own byte, and its part of the block's scale.
    stored = 1.0 + FP32_SCALE / (rows * columns)
    return Scheme(stored, activations, f"fp8 ({note})", 8, scaled=activations is not None, convertible=True)


def integer(bits: int, group: int | None, zeros: bool, activations: str | None, method: str) -> Scheme:
    """Integer weights of `bits`, with a float16 scale and, if `zeros`, a packed zero point per `group` of weights."""
    size = bits / 8.0
    # Per group: a scale of 16 bits, and a zero point as wide as a weight.
    stored = size if group is None else size + (FP16_SCALE + (size if zeros else 0.0)) / group
    kind = f"w{bits}a16" if activations is None else f"w{bits}a8"
    # Activations of w4a8 are fp8 or int8: the label says which.
    precision = activations if bits == 4 and activations else ""
    detail = ", ".join(part for part in (method, precision, f"group {group}" if group else "") if part)
    return Scheme(stored, activations, f"{kind} ({detail})" if detail else kind, bits)


def int8_blocks(block: tuple[int, int]) -> Scheme:
    """INT8 weights with one float32 scale per `block` of rows and columns, multiplied with int8 activations."""
    rows, columns = block
    stored = 1.0 + FP32_SCALE / (rows * columns)
    return Scheme(stored, "int8", f"w8a8 (block {rows}x{columns})", 8, scaled=True)


def mxfp4(activations: str | None = None) -> Scheme:
    """MXFP4 weights: 4 bits and an 8-bit exponent per 32. Weights only unless `activations` says otherwise."""
    stored, label = 0.5 + E8M0_SCALE / MX_GROUP, _float4_label("mxfp4", activations)
    return Scheme(stored, activations, label, 4, convertible=True, padded=True)


def mxfp8(activations: str | None = "fp8") -> Scheme:
    """MXFP8 weights: 8 bits and an 8-bit exponent per 32."""
    return Scheme(1.0 + E8M0_SCALE / MX_GROUP, activations, "mxfp8", 8, convertible=True)


def nvfp4(group: int = NVFP4_GROUP, activations: str | None = "fp4") -> Scheme:
    """NVFP4 weights: 4 bits and an FP8 scale per `group`."""
    return Scheme(0.5 + FP8_SCALE / group, activations, _float4_label("nvfp4", activations), 4, convertible=True)


def _float4_label(name: str, activations: str | None) -> str:
    if activations == "fp4":
        return name
    return f"{name} ({activations} activations)" if activations else f"{name} (weights only)"


OVERRIDES: dict[str, Scheme | float] = {
    "fp8": fp8(),
    "fp8-static": fp8(calibrated=True),
    "fp8-block": fp8((128, 128)),
    "int8": integer(8, None, False, "int8", ""),
    "w8a16": integer(8, None, False, None, ""),
    "w4a16": integer(4, 128, True, None, ""),
    "w4a8": integer(4, 128, False, "fp8", ""),
    "nvfp4": nvfp4(),
    "mxfp4": mxfp4(),
    "mxfp4-fp8": mxfp4("fp8"),  # with activations of 8 bits
    "mxfp8": mxfp8(),
    # A float16 scale and a float16 zero per group, where w4a16 has zeros of 4 bits.
    "int4": Scheme(0.5 + 2.0 * FP16_SCALE / 128, None, "int4 (group 128, float16 zeros)", 4),
    "bf16": 2.0,
    "fp16": 2.0,
    "tf32": 4.0,  # how float32 is multiplied
    "fp32": 4.0,
}
"""What a user may ask for in place of the checkpoint's own precision. A number: B per weight, nothing is quantised."""


# One linear layer of a checkpoint: its paths in exports, what it is for, and its sizes.


KINDS = {
    "query": "queries of attention",
    "key": "keys of attention",
    "value": "values of attention",
    "qkv": "queries, keys and values in one matrix",
    "output": "output of attention",
    "gate": "gate of a feed-forward layer",
    "up": "projection up of a feed-forward layer",
    "down": "projection down of a feed-forward layer",
    "router": "scores of experts",
    "embedding": "table of tokens",
    "head": "output head",
    "other": "any other linear layer",
}
"""What a linear layer is for, in words."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One linear layer."""

    paths: tuple[str, ...]  # that different exports give it
    kind: str = "other"  # a key of `KINDS`
    inputs: float = 0.0  # columns, along which groups of weights lie; 0: not known
    outputs: float = 1.0  # rows, or their share in a product that runs several layers as one
    layer: int = 0  # index, from 0
    routed: bool = False  # of an expert
