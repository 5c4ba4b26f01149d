"""GGUF file types: blocks of weights in bits, and the mixture of them that llama.cpp gives to a model's tensors."""

import dataclasses

from workloads.precisions.formats import Scheme, Tensor

BLOCKS: dict[str, tuple[float, int]] = {
    "f32": (32.0, 1),
    "f16": (16.0, 1),
    "q4_0": (4.5, 32),
    "q4_1": (5.0, 32),
    "q5_0": (5.5, 32),
    "q5_1": (6.0, 32),
    "q8_0": (8.5, 32),
    "q2_k": (2.625, 256),
    "q3_k": (3.4375, 256),
    "q4_k": (4.5, 256),
    "q5_k": (5.5, 256),
    "q6_k": (6.5625, 256),
    "iq1_s": (1.5625, 256),
    "iq1_m": (1.75, 256),
    "iq2_xxs": (2.0625, 256),
    "iq2_xs": (2.3125, 256),
    "iq2_s": (2.5625, 256),
    "iq3_xxs": (3.0625, 256),
    "iq3_s": (3.4375, 256),
    "iq4_nl": (4.5, 32),
    "iq4_xs": (4.25, 256),
    "tq1_0": (1.6875, 256),
    "tq2_0": (2.0625, 256),
    "mxfp4": (4.25, 32),
}
"""Type of a tensor -> bits per weight, scales included, and weights per block. Source: ggml/src/ggml-common.h."""

FILE_TYPES: dict[str, str] = {
    "q4_0": "q4_0",
    "q4_1": "q4_1",
    "q5_0": "q5_0",
    "q5_1": "q5_1",
    "q8_0": "q8_0",
    "q2_k": "q2_k",
    "q2_k_s": "q2_k",
    "q3_k_s": "q3_k",
    "q3_k_m": "q3_k",
    "q3_k_l": "q3_k",
    "q4_k_s": "q4_k",
    "q4_k_m": "q4_k",
    "q5_k_s": "q5_k",
    "q5_k_m": "q5_k",
    "q6_k": "q6_k",
    "iq1_s": "iq1_s",
    "iq1_m": "iq1_m",
    "iq2_xxs": "iq2_xxs",
    "iq2_xs": "iq2_xs",
    "iq2_s": "iq2_xs",
    "iq2_m": "iq2_s",
    "iq3_xxs": "iq3_xxs",
    "iq3_xs": "iq3_s",
    "iq3_s": "iq3_s",
    "iq3_m": "iq3_s",
    "iq4_nl": "iq4_nl",
    "iq4_xs": "iq4_xs",
    "tq1_0": "tq1_0",
    "tq2_0": "tq2_0",
    "mxfp4_moe": "mxfp4",
}
"""Type of a file -> that of most of its tensors. Source: llama.cpp, src/llama-quant.cpp
(llama_ftype_get_default_type)."""

SHORT = {"q3_k": "q3_k_m", "q4_k": "q4_k_m", "q5_k": "q5_k_m"}
"""Names that llama-quantize takes for others."""

SMALLER_BLOCKS = {"q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0", "iq4_xs": "iq4_nl"}
"""What takes the place of a type whose blocks do not divide a tensor's columns; of smaller k types q4_0, of i types
iq4_nl."""

LOW = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m")
"""File types with rules of their own: below 3 bits."""

NOT_QUANTISED = {"router": "f32"}
"""Kinds of tensors that no file type quantises."""


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Types of a model's tensors in a file of one type, made without an importance matrix where that is possible.

    Source: llama.cpp, src/llama-quant.cpp, llama_tensor_get_type_impl and tensor_type_fallback (November 2026).
    """

    file_type: str  # a key of `FILE_TYPES`
    layers: int = 1
    experts: int = 0
    group: float = 1.0  # query heads per key head
    tied: bool = False  # whether the head is the embedding's transpose

    def scheme(self, tensor: Tensor) -> Scheme:
        """The format of one tensor."""
        block_type = self.tensor_type(tensor)
        return Scheme(BLOCKS[block_type][0] / 8.0, None, block_type, int(BLOCKS[block_type][0]))

    def tensor_type(self, tensor: Tensor) -> str:
        """The type of one tensor, a key of `BLOCKS`."""
        if tensor.kind in NOT_QUANTISED:
            return NOT_QUANTISED[tensor.kind]
        return _fitting(self._wanted(tensor), tensor.inputs)

    def _wanted(self, tensor: Tensor) -> str:
        """The type before its blocks are fitted to the columns."""
        kind, file_type, usual = tensor.kind, self.file_type, FILE_TYPES[self.file_type]
        # A tied embedding is the head as well, and is stored as that.
        if kind == "head" or (self.tied and kind == "embedding"):
            return self._head(tensor, usual)
        if file_type == "mxfp4_moe":
            return "mxfp4" if tensor.routed else "q8_0"
        if kind == "embedding":
            return EMBEDDINGS.get(file_type, usual)
        if file_type in LOW:
            return self._low(tensor, usual)
        if kind in ("value", "qkv"):
            return self._value(tensor, usual)
        # Of eight experts (Mixtral) the keys are small beside the experts, so 8 bits cost little.
        if kind == "key" and self.experts == 8:
            return "q8_0"
        if kind in ("key", "query"):
            return {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}.get(file_type, usual)
        if kind == "down":
            return self._down(tensor.layer, usual)
        if kind == "output":
            return self._output(usual)
        if kind in ("gate", "up") and file_type == "iq3_xs" and not self._at_ends(tensor.layer):
            return "iq3_xxs"
        return usual

    def _head(self, tensor: Tensor, usual: str) -> str:
        # Besides these files, a head whose columns the usual blocks do not divide has 8 bits.
        if self.file_type == "mxfp4_moe" or tensor.inputs % BLOCKS[usual][1] or usual == "q8_0":
            return "q8_0"
        return "q5_k" if self.file_type in (*LOW, "iq3_xxs") else "q6_k"

    def _low(self, tensor: Tensor, usual: str) -> str:
        kind, larger = tensor.kind, self.file_type in ("iq2_s", "iq2_m")
        if kind in ("value", "qkv"):
            # Where several queries share a value head, values are small: more bits cost little.
            return "q4_k" if self.group >= 4 or self.experts >= 4 else "iq3_s" if larger else "q2_k"
        if kind == "key" and self.experts == 8:
            return "q4_k"
        if kind == "down" and tensor.layer < self.layers // 8:
            return "iq3_s" if larger else "q2_k"
        if kind == "output":
            if self.experts == 8:
                return "q5_k"
            return "iq2_xxs" if self.file_type in ("iq1_s", "iq1_m") else "iq3_s" if larger else usual
        return usual

    def _value(self, tensor: Tensor, usual: str) -> str:
        """Values, and the whole of queries, keys and values where they are one."""
        file_type, i, grouped = self.file_type, tensor.layer, self.group >= 4
        block_type = usual
        if file_type == "q2_k":
            block_type = "q4_k" if grouped else "q3_k"
        elif file_type in ("q2_k_s", "iq3_xs", "iq3_s") and grouped:
            block_type = "q4_k"
        elif file_type == "iq3_xxs":
            block_type = "q4_k" if grouped else usual
        elif file_type == "iq3_m":
            block_type = "q4_k"
        elif file_type == "q3_k_m":
            block_type = "q5_k" if i < 2 else "q4_k"
        elif file_type == "q3_k_l" or (file_type in ("iq4_nl", "iq4_xs") and grouped):
            block_type = "q5_k"
        elif file_type in ("q4_k_m", "q5_k_m") and self._more_bits(i):
            block_type = "q6_k"
        elif file_type == "q4_k_s" and i < 4:
            block_type = "q5_k"
        # A dense model of 70B: its values are shared by several query heads, so 5 bits cost little.
        if self.layers == LARGE_LAYERS and self.group > 1 and not self.experts and block_type in ("q3_k", "q4_k"):
            block_type = "q5_k"
        return "q8_0" if self.experts == 8 else block_type

    def _down(self, i: int, usual: str) -> str:
        """Projections down. Without an importance matrix the first ones of 4-bit i types get more bits too."""
        file_type, first = self.file_type, i < self.layers // 8
        if file_type == "q2_k":
            return "q3_k"
        if file_type == "q2_k_s" and first:
            return "q4_k"
        if file_type == "q3_k_m":
            return "q5_k" if i < self.layers // 16 else "q4_k"
        if file_type == "iq3_m" and (first or (self.experts == 8 and self._more_bits(i))):
            return "q4_k"
        if file_type == "q3_k_l":
            return "q5_k"
        if file_type in ("q4_k_m", "q5_k_m") and self._more_bits(i):
            return "q6_k"
        if file_type in ("iq4_nl", "iq4_xs", "q4_k_s") and first:
            return "q5_k"
        return usual

    def _output(self, usual: str) -> str:
        if self.experts == 8:
            return "q5_k" if self.file_type in FIVE_BITS_OF_EIGHT else usual
        return {"q2_k": "q3_k", "iq3_xxs": "iq3_s", "q3_k_m": "q4_k", "q3_k_l": "q5_k", "iq3_m": "q4_k"}.get(
            self.file_type, usual
        )

    def _more_bits(self, i: int) -> bool:
        """Layers that the medium types give more bits to: the first and last eighth, and every third between."""
        # Integer divisions, as in `use_more_bits` of llama.cpp.
        eighth = self.layers // 8
        return i < eighth or i >= 7 * self.layers // 8 or (i - eighth) % 3 == 2

    def _at_ends(self, i: int) -> bool:
        return i < self.layers // 8 or i >= 7 * self.layers // 8


EMBEDDINGS = {
    **dict.fromkeys(("iq2_xxs", "iq2_xs", "iq1_s", "iq1_m"), "q2_k"),
    **dict.fromkeys(("iq2_s", "iq2_m", "iq3_xxs"), "iq3_s"),
    **dict.fromkeys(("tq1_0", "tq2_0"), "q4_k"),
}
"""File types whose table of tokens, where it is not the head too, has another type than most tensors."""

FIVE_BITS_OF_EIGHT = (
    *("q2_k", "iq3_xs", "iq3_xxs", "q3_k_s", "q3_k_m", "iq4_nl", "q4_k_s", "q4_k_m", "iq3_s", "iq3_m", "iq4_xs"),
)
"""File types that give attention's output 5 bits in a mixture of eight experts."""

LARGE_LAYERS = 80
"""Layers of the dense models (Llama 70B, Qwen2 72B) whose values llama.cpp gives 5 bits at least."""


def file_type(text: str) -> str | None:
    """The file type that `text` names, in any case and by any name of llama-quantize; None for another word."""
    name = text.lower().replace("-", "_")
    # Short names of llama-quantize mean the medium mixture.
    name = SHORT.get(name, name)
    return name if name in FILE_TYPES else None


def _fitting(wanted: str, inputs: float) -> str:
    """`wanted`, or a type of smaller blocks where its blocks do not divide the columns, or 16 bits."""
    # Blocks lie along the columns, so they must divide them; 0 columns, which means not known, pass.
    if not inputs % BLOCKS[wanted][1]:
        return wanted
    smaller = SMALLER_BLOCKS.get(wanted, "iq4_nl" if wanted.startswith("iq") else "q4_0")
    return smaller if not inputs % BLOCKS[smaller][1] else "f16"
