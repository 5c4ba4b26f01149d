"""Precisions that a user may ask for in place of a checkpoint's own: schemes, MLX's bits, types of GGUF files."""

import dataclasses

from workloads import gguf, mlx
from workloads.formats import OVERRIDES, Scheme
from workloads.replaced_modules import four_bits
from workloads.storage import Quantization

BASES = ("fp16", "bf16", "fp32")
"""Types that what is not quantised may run in, after a quantised precision and `-`, on devices without others: fp16
under any, the others under a type of GGUF file, which llama.cpp multiplies in what a device has."""

GGUF_BASE = "fp16"
"""Type that llama.cpp multiplies in, and that its cache has by default. Source: llama.cpp, common/arg.cpp
(--cache-type-k, f16), ggml/src/ggml-cuda/ggml-cuda.cu."""

MLX = {f"mlx-{bits}bit": mlx.affine(bits, mlx.GROUP) for bits in mlx.AFFINE_BITS}
MLX |= {f"mlx-{mode}": scheme() for mode, scheme in mlx.FLOATS.items()}
"""What MLX stores -> its scheme."""

SCHEMES: dict[str, Scheme] = {
    **{name: scheme for name, scheme in OVERRIDES.items() if isinstance(scheme, Scheme)},
    "nf4": four_bits(),
    "nf4-single": four_bits(double=False),
}
"""Schemes of linear layers; NF4 with its scales quantised too, as QLoRA has it, or not."""

UNQUANTISED: dict[str, float] = {name: size for name, size in OVERRIDES.items() if isinstance(size, float)}
"""B per weight of types that the whole model is stored in."""


@dataclasses.dataclass(frozen=True)
class Replacement:
    """What takes the place of a checkpoint's precision."""

    quantised: Quantization
    base: str | None  # type of what is not quantised; None: the checkpoint's
    label: str
    where: str  # what of the model it is for, in words


def replacement(weights: str) -> Replacement:
    """What `weights` asks for: a name of `SCHEMES`, `UNQUANTISED`, `MLX` or of a GGUF file's type, a base after it.

    Raises:
      ValueError: one line that names it and those that are known.
    """
    name, base = weights, None
    if name in UNQUANTISED:
        return Replacement(Quantization(), name, name, "in the whole model")
    for one in BASES:
        if name.endswith(f"-{one}"):
            name, base = name.removesuffix(f"-{one}"), one
    rest = f", rest {base}" if base else ""
    whole = "in the language model, table of tokens and output head too"
    file_type = gguf.file_type(name)
    if base not in (None, BASES[0]) and file_type is None:
        name = weights
    if name in SCHEMES:
        where = "in every linear layer but the router, an encoder's and the output head"
        scheme = SCHEMES[name]
        return Replacement(Quantization(((None, scheme),)), base, scheme.label + rest, where)
    if name.lower() in MLX:
        scheme = MLX[name.lower()]
        return Replacement(mlx.stored_as(scheme), base, scheme.label + rest, whole)
    if file_type is not None:
        mixture = gguf.Mixture(file_type)
        quantised = Quantization(head=True, embedding=True, router=True, apart=True, mixture=mixture)
        return Replacement(quantised, base or GGUF_BASE, f"{quantised.label}{rest}", whole)
    known = ", ".join((*OVERRIDES, "nf4", "nf4-single"))
    raise ValueError(
        f"weights is {weights!r}; it must be one of {known}, mlx-4bit and its like, or a type of GGUF file such as "
        f"q4_k_m: {', '.join(gguf.FILE_TYPES)}"
    )
