"""Precisions that a user may ask for in place of a checkpoint's own: schemes, MLX's bits, types of GGUF files."""

import dataclasses
import re

from jaxroof.model import WeightFormat
from workloads.config import Config
from workloads.precisions import formats, gguf, integers
from workloads.precisions.formats import DTYPES, OVERRIDES, Scheme
from workloads.precisions.gguf import FILE_TYPES
from workloads.precisions.integers import AFFINE_BITS
from workloads.precisions.quantization import quantization
from workloads.precisions.replaced_modules import four_bits
from workloads.precisions.storage import Quantization, patterns, with_experts

BASES = ("fp16", "bf16", "fp32")
"""Types that what is not quantised may run in, after a quantised precision and `-`, on devices without others: fp16
under any, the others under a type of GGUF file, which llama.cpp multiplies in what a device has."""

GGUF_BASE = "fp16"
"""Type that llama.cpp multiplies in, and that its cache has by default. Source: llama.cpp, common/arg.cpp
(--cache-type-k, f16), ggml/src/ggml-cuda/ggml-cuda.cu."""

MLX = {f"mlx-{bits}bit": integers.affine(bits, integers.MLX_GROUP) for bits in integers.AFFINE_BITS}
MLX |= {f"mlx-{mode}": scheme() for mode, scheme in integers.FLOATS.items()}
"""What MLX stores -> its scheme."""

SCHEMES: dict[str, Scheme] = {
    **{name: scheme for name, scheme in OVERRIDES.items() if isinstance(scheme, Scheme)},
    "nf4": four_bits(),
    "nf4-single": four_bits(double=False),
}
"""Schemes of linear layers; NF4 with its scales quantised too, as QLoRA has it, or not."""

LATENT = patterns(("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"))
"""Projections of latent attention that NVFP4 checkpoints keep at 16 bits. Source: hf_quant_config.json of
nvidia/DeepSeek-R1-0528-FP4-v2 and nvidia/DeepSeek-V3-0324-FP4."""

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
    # A base may follow the precision: w4a16-fp16.
    for one in BASES:
        if name.endswith(f"-{one}"):
            name, base = name.removesuffix(f"-{one}"), one
    rest = f", rest {base}" if base else ""
    everywhere = "in the language model, table of tokens and output head too"
    file_type = gguf.file_type(name)
    # bf16 and fp32 follow types of GGUF files alone; behind another precision they are no base.
    if base not in (None, BASES[0]) and file_type is None:
        name = weights
    if name in SCHEMES:
        where = "in every linear layer but the router, an encoder's and the output head"
        scheme = SCHEMES[name]
        excluded = LATENT if name == "nvfp4" else patterns(())
        return Replacement(Quantization(((None, scheme),), excluded), base, scheme.label + rest, where)
    if name.lower() in MLX:
        scheme = MLX[name.lower()]
        return Replacement(integers.stored_as(scheme), base, scheme.label + rest, everywhere)
    if file_type is not None:
        # A GGUF file has types for embedding, head and routers too, and llama.cpp multiplies each tensor alone.
        mixture = gguf.Mixture(file_type)
        quantised = Quantization(head=True, embedding=True, router=True, apart=True, mixture=mixture)
        return Replacement(quantised, base or GGUF_BASE, f"{quantised.label}{rest}", everywhere)
    known = ", ".join((*OVERRIDES, "nf4", "nf4-single"))
    raise ValueError(
        f"weights is {weights!r}; it must be one of {known}, mlx-4bit and its like, or a type of GGUF file such as "
        f"q4_k_m: {', '.join(gguf.FILE_TYPES)}"
    )


# Precision of a checkpoint, and where it is stated.


CONVENTIONS: tuple[tuple[str, Scheme | str], ...] = (
    ("bf16", "bf16"),
    ("fp16", "fp16"),
    ("(unsloth-)?bnb-4bit", "nf4"),
    *((f"(gguf-|i1-)?{name.replace('_', '-')}", name) for name in FILE_TYPES),
    *((f"mlx-{bits}bit", f"mlx-{bits}bit") for bits in AFFINE_BITS),
    ("nvfp4", formats.nvfp4()),
    ("mxfp4", formats.mxfp4()),
    ("fp8-block", formats.fp8((128, 128))),
    ("fp8(-(dynamic|kv))?", formats.fp8()),
    ("(quantized-)?w4a16(-g128)?", formats.integer(4, 128, False, None, "compressed-tensors")),
    ("(quantized-)?w8a16", formats.integer(8, None, False, None, "compressed-tensors")),
    ("(quantized-)?w8a8", formats.integer(8, None, False, "int8", "compressed-tensors")),
    ("gptq-(int8|8bit)", formats.integer(8, 128, True, None, "gptq")),
    ("gptq(-(int4|4bit|marlin))*(-g128|-128g)?", formats.integer(4, 128, True, None, "gptq")),
    ("awq(-(int4|4bit|marlin))*(-g128)?", formats.integer(4, 128, True, None, "awq")),
)
"""How publishers end the name of a quantised checkpoint (lower case, `-` between words), and what it stands for: a
scheme, or a name of `replacement`.

Group sizes are those that the publishers' tools default to: 128 weights for integer groups.
"""


EXPERTS = "experts:"
"""Beginning of a precision that replaces the experts' alone: "experts:mxfp4-fp8"."""


@dataclasses.dataclass(frozen=True)
class Precision:
    """A checkpoint's number formats."""

    quantised: Quantization
    base: WeightFormat  # of what is not quantised
    label: str
    source: str  # where the label is said
    notes: tuple[str, ...] = ()


def precision(
    config: Config, beside: Quantization | None, source: str, convention: str | None, weights: str | None
) -> Precision:
    """The precision of a checkpoint, or of what `weights` asks for in its place.

    From a key of `KEYS`, else a file beside it, else the convention in a name, else torch_dtype. What a float32
    checkpoint does not quantise is bf16, as engines run it, unless `weights` asks for fp32 or tf32.

    Args:
      config: the whole config.
      beside: what a file beside the config says, such as hf_quant_config.json, if there is one.
      source: its name.
      convention: the name to look for a naming convention in.
      weights: what `replacement` knows, or None for the checkpoint's own. "experts:NAME" replaces that of the
        routed experts alone, also behind another and a comma: "fp8,experts:mxfp4-fp8".

    Raises:
      ValueError: an unknown method, algorithm, dtype or `weights`, with what is known.
    """
    names = () if weights is None else tuple(weights.split(","))
    # The first name may be for the whole model; all others are for experts.
    if not all(name.startswith(EXPERTS) for name in names[1:]):
        raise ValueError(f"weights is {weights!r}; it must be one precision, with {EXPERTS}NAME after it or not")
    changes = [(name, replacement(name.removeprefix(EXPERTS))) for name in names]
    # The checkpoint's own precision: its dtype, then what its config or a file beside it declares, then its name.
    base, said = _base(config)
    quantised, source = _declared(config, beside, source)
    if quantised is None:
        base, said, quantised, source = _conventional(base, said, convention)
    if said is None and quantised.label is None and weights is None:
        words = "torch_dtype is missing and nothing else says the precision; give it, such as bfloat16, or weights="
        raise config.wrong(words, "torch_dtype", "bfloat16")
    notes = () if said else ("torch_dtype is not stated: what is not quantised is taken as bfloat16",)
    own = Precision(quantised, base, quantised.label or base.compute, source, notes)
    # Whether a replacement states the type of what it does not quantise.
    based = False
    for name, change in changes:
        if name.startswith(EXPERTS):
            own = _with_experts(own, name)
        else:
            own, based = _overridden(own, change, name), change.base is not None
    return own if based else _at_16_bits(own)


def _at_16_bits(own: Precision) -> Precision:
    """With a float32 checkpoint's matrices, and so its attention, as an engine runs them: in bf16.

    Source: vLLM v0.11, vllm/config/model.py, `_resolve_auto_dtype`: with --dtype auto, the default, a float32 model is
    cast to the device's preferred 16-bit type; its kernels of quantised weights take 16-bit activations alone
    (`get_supported_act_dtypes` in vllm/model_executor/layers/quantization).
    """
    if own.base.compute != "fp32":
        return own
    base = WeightFormat(bytes=2.0, compute="bf16")
    if own.quantised.assignments:
        note = "torch_dtype is float32: what is not quantised, and attention, run in bf16, as engines cast them"
        return dataclasses.replace(own, base=base, notes=(*own.notes, note))
    note = 'torch_dtype is float32: run in bf16, as engines cast it; weights="fp32" keeps it'
    return dataclasses.replace(own, base=base, label=base.compute, notes=(*own.notes, note))


def name_convention(name: str) -> tuple[str, Scheme | str | None, str]:
    """(the name without its ending, the scheme or other precision that the ending stands for or None, the ending)."""
    for expression, scheme in CONVENTIONS:
        # A dash in an expression stands for any sign between words of a name.
        pattern = f"[-_.]({expression.replace('-', '[-_.]')})$"
        match = re.search(pattern, name, re.IGNORECASE)
        if match:
            return name[: match.start()], scheme, match.group(1)
    return name, None, ""


def _base(config: Config) -> tuple[WeightFormat, str | None]:
    """The format of unquantised weights, and the dtype that says so."""
    dtype = config.value("torch_dtype", "dtype")
    # The table of a nested language model may have a dtype of its own.
    if dtype is None:
        dtype = (config.nested() or config).value("torch_dtype", "dtype")
    if dtype is None:
        return WeightFormat(bytes=2.0, compute="bf16"), None
    key = str(dtype).removeprefix("torch.")
    if key not in DTYPES:
        words = f"torch_dtype is {dtype!r}; it must be one of {', '.join(DTYPES)}"
        raise config.wrong(words, config.spelling("torch_dtype", "dtype"), "bfloat16")
    compute, stored = DTYPES[key]
    return WeightFormat(bytes=stored, compute=compute), key


KEYS = ("quantization", "quantization_config", "compression_config")
"""Keys that hold how weights are stored, the first that is there: that of MLX; that of transformers and most engines;
that of compressed-tensors in 2024, which vLLM reads where there is no other."""


def _declared(config: Config, beside: Quantization | None, source: str) -> tuple[Quantization | None, str]:
    """What the config says of stored weights, or what a file beside it says; and where that is."""
    declared = None
    # The first place that says something counts; the others are read so that they are not noted as unread.
    for key in KEYS:
        for place in (config, config.nested()):
            table = None if place is None else place.table(key)
            if table is not None and declared is None:
                declared = quantization(table), key
    if declared is None:
        return beside, source
    # `expert_dtype` is of the experts alone, in addition to the table.
    if config.value("expert_dtype") == "fp4":
        declared = with_experts(declared[0], formats.mxfp4("fp8")), declared[1]
    return declared


def _conventional(
    base: WeightFormat, said: str | None, convention: str | None
) -> tuple[WeightFormat, str | None, Quantization, str]:
    """Precision by a name's ending, else by torch_dtype."""
    _, scheme, ending = name_convention(convention or "")
    source = f"name ends in {ending} (naming convention)" if ending else "torch_dtype"
    if isinstance(scheme, str):
        implied = replacement(scheme)
        if implied.base is not None:
            base, said = WeightFormat(bytes=UNQUANTISED[implied.base], compute=implied.base), ending
        return base, said, implied.quantised, source
    # Names such as fp8-kv say that the cache is quantised too.
    kv_precision = "fp8" if ending.lower().endswith("kv") else None
    return base, said, Quantization(() if scheme is None else ((None, scheme),), kv_precision=kv_precision), source


def _overridden(own: Precision, asked: Replacement, weights: str) -> Precision:
    """`own` with what `weights` asks for; the precision of its KV cache stays."""
    note = f'weights="{weights}" replaces {own.label}, which {own.source} says, {asked.where}'
    quantised = dataclasses.replace(asked.quantised, kv_precision=own.quantised.kv_precision)
    base = own.base
    if asked.base is not None:
        base = WeightFormat(bytes=UNQUANTISED[asked.base], compute=asked.base)
        if quantised.label is not None:
            note = f"{note}; what is not quantised runs in {asked.base}"
    return Precision(quantised, base, asked.label, "weights", (*own.notes, note))


def _with_experts(own: Precision, name: str) -> Precision:
    """`own` with its routed experts in another precision, a scheme or a type of 16 bits.

    Raises:
      ValueError: one line, for other precisions, and for a checkpoint that excludes modules by patterns of its own.
    """
    kind, quantised = name.removeprefix(EXPERTS), own.quantised
    if kind in SCHEMES:
        changed, label = with_experts(quantised, SCHEMES[kind]), SCHEMES[kind].label
    elif kind in UNQUANTISED:
        others = quantised.excluded
        # Only plain names can be written into a new list, together with the experts.
        if others.expressions or others.wildcards:
            raise ValueError(f"weights={name!r}: a checkpoint that excludes modules by patterns keeps its experts")
        changed, label = dataclasses.replace(quantised, excluded=patterns((*sorted(others.plain), "experts"))), kind
    else:
        raise ValueError(f"weights={name!r} must be one of {', '.join((*SCHEMES, *UNQUANTISED))} for experts")
    note = f'weights="{name}" replaces the experts\' own'
    return Precision(changed, own.base, f"{own.label}, experts {label}", "weights", (*own.notes, note))
