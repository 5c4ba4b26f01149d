"""Precision of a checkpoint, and where it is stated."""

import dataclasses
import re

from jaxroof.model import WeightFormat
from workloads import formats
from workloads.config import Config
from workloads.formats import OVERRIDES, UNQUANTISED, Scheme
from workloads.modules import patterns
from workloads.quantization import Quantization, hf_quant_config, quantization, with_experts

CONVENTIONS: tuple[tuple[str, Scheme | str], ...] = (
    ("bf16", "bf16"),
    ("fp16", "fp16"),
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
"""How publishers end the name of a quantised checkpoint (lower case, `-` between words), and what it stands for.

Group sizes are those that the publishers' tools default to: 128 weights for integer groups.
"""


EXPERTS = "experts:"
"""Beginning of a precision that replaces the experts' alone: "experts:mxfp4-fp8"."""

LATENT = patterns(("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"))
"""Projections of latent attention that NVFP4 checkpoints keep at 16 bits. Source: hf_quant_config.json of
nvidia/DeepSeek-R1-0528-FP4-v2 and nvidia/DeepSeek-V3-0324-FP4."""

HALF = "-fp16"
"""End of a quantised precision beside which the rest of the model runs in fp16."""


@dataclasses.dataclass(frozen=True)
class Precision:
    """A checkpoint's number formats."""

    quantised: Quantization
    base: WeightFormat  # of what is not quantised
    label: str
    source: str  # where the label is said
    notes: tuple[str, ...] = ()


def precision(config: Config, hf_quant: Config | None, convention: str | None, weights: str | None) -> Precision:
    """The precision of a checkpoint, or of what `weights` asks for in its place.

    From quantization_config, else hf_quant_config.json, else the convention in a name, else torch_dtype. What a float32
    checkpoint does not quantise is bf16, as engines run it, unless `weights` asks for fp32 or tf32.

    Args:
      config: the whole config.
      hf_quant: the content of hf_quant_config.json, if there is one.
      convention: the name to look for a naming convention in.
      weights: one of `formats.OVERRIDES`, or None for the checkpoint's own. "experts:NAME" replaces that of the routed
        experts alone, also behind another and a comma: "fp8,experts:mxfp4-fp8". A quantised one with `-fp16` after it
        runs what is not quantised in fp16: on devices without bf16.

    Raises:
      ValueError: an unknown method, algorithm, dtype or `weights`, with what is known.
    """
    asked = () if weights is None else tuple(weights.split(","))
    if any(_replacement(each) is None for each in asked):
        raise ValueError(f"weights is {weights!r}; it must be one of {', '.join(OVERRIDES)}")
    base, said = _base(config)
    quantised, source = _declared(config, hf_quant)
    if quantised is None:
        base, said, quantised, source = _conventional(base, said, convention)
    if said is None and quantised.label is None and weights is None:
        raise config.error("torch_dtype is missing and nothing else says the precision; give weights=")
    notes = () if said else ("torch_dtype is not stated: what is not quantised is taken as bfloat16",)
    own = Precision(quantised, base, quantised.label or base.compute, source, notes)
    for each in asked:
        own = _overridden(own, each)
    return own if own.source == "weights" and not own.quantised.assignments else _at_16_bits(own)


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
    """(the name without its ending, the scheme or 16-bit type that the ending stands for or None, the ending)."""
    for expression, scheme in CONVENTIONS:
        pattern = f"[-_.]({expression.replace('-', '[-_.]')})$"
        found = re.search(pattern, name, re.IGNORECASE)
        if found:
            return name[: found.start()], scheme, found.group(1)
    return name, None, ""


def _base(config: Config) -> tuple[WeightFormat, str | None]:
    """The format of unquantised weights, and the dtype that says so."""
    dtype = config.value("torch_dtype", "dtype")
    if dtype is None:
        dtype = (config.nested() or config).value("torch_dtype", "dtype")
    if dtype is None:
        return WeightFormat(bytes=2.0, compute="bf16"), None
    key = str(dtype).removeprefix("torch.")
    if key not in UNQUANTISED:
        raise config.error(f"torch_dtype is {dtype!r}; it must be one of {', '.join(UNQUANTISED)}")
    compute, stored = UNQUANTISED[key]
    return WeightFormat(bytes=stored, compute=compute), key


def _declared(config: Config, hf_quant: Config | None) -> tuple[Quantization | None, str]:
    table = config.table("quantization_config") or (config.nested() or config).table("quantization_config")
    if table is not None:
        declared = quantization(table)
        if config.value("expert_dtype") == "fp4":
            declared = with_experts(declared, formats.mxfp4("fp8"))
        return declared, "quantization_config"
    if hf_quant is not None:
        return hf_quant_config(hf_quant), "hf_quant_config.json"
    return None, ""


def _conventional(
    base: WeightFormat, said: str | None, convention: str | None
) -> tuple[WeightFormat, str | None, Quantization, str]:
    """Precision by a name's ending, else by torch_dtype."""
    _, scheme, ending = name_convention(convention or "")
    source = f"name ends in {ending} (naming convention)" if ending else "torch_dtype"
    if isinstance(scheme, str):
        return WeightFormat(bytes=2.0, compute=scheme), ending, Quantization(), source
    kv_precision = "fp8" if ending.lower().endswith("kv") else None
    return base, said, Quantization(() if scheme is None else ((None, scheme),), kv_precision=kv_precision), source


def _replacement(weights: str) -> Scheme | float | None:
    """What `weights` asks for; None where it is not known."""
    if weights.startswith(EXPERTS):
        return OVERRIDES.get(weights.removeprefix(EXPERTS))
    quantised = OVERRIDES.get(weights.removesuffix(HALF)) if weights.endswith(HALF) else None
    return OVERRIDES.get(weights, quantised if isinstance(quantised, Scheme) else None)


def _wide_experts(quantised: Quantization) -> Quantization:
    """Experts as what is not quantised; ValueError where the checkpoint excludes modules by patterns of its own."""
    others = quantised.excluded
    if others.expressions or others.wildcards:
        raise ValueError("weights=: a checkpoint with patterns of modules that it does not quantise keeps its experts")
    return dataclasses.replace(quantised, excluded=patterns((*sorted(others.plain), "experts")))


def _overridden(own: Precision, weights: str) -> Precision:
    scheme = _replacement(weights)
    replaced = f'weights="{weights}" replaces {own.label}, which {own.source} says,'
    kv = own.quantised.kv_precision
    if weights.startswith(EXPERTS):
        said = scheme.label if isinstance(scheme, Scheme) else weights.removeprefix(EXPERTS)
        label = f"{own.label}, experts {said}"
        note = f'weights="{weights}" replaces the experts\' own'
        made = with_experts(own.quantised, scheme) if isinstance(scheme, Scheme) else _wide_experts(own.quantised)
        return Precision(made, own.base, label, "weights", (*own.notes, note))
    if isinstance(scheme, float):
        base = WeightFormat(bytes=scheme, compute=weights)
        note = f"{replaced} in the whole model"
        return Precision(Quantization(kv_precision=kv), base, weights, "weights", (*own.notes, note))
    note = f"{replaced} in every linear layer but the router, an encoder's and the output head"
    kept = LATENT if weights == "nvfp4" else patterns(())
    quantised = Quantization(((None, scheme),), kept, kv_precision=kv)
    if weights.endswith(HALF):
        base, note = WeightFormat(bytes=2.0, compute="fp16"), f"{note}; what is not quantised runs in fp16"
        return Precision(quantised, base, f"{scheme.label}, rest fp16", "weights", (*own.notes, note))
    return Precision(quantised, own.base, scheme.label, "weights", (*own.notes, note))
