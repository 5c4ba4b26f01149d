"""What the labels of a serving measurement stand for: the suite, the precisions and the layout of the devices."""

import dataclasses
import re
from typing import Any

import workloads
from jaxroof.model import Experts, Model, WeightFormat
from workloads import formats

INFERENCEX, NVIDIA = "inferencex", "nvidia"
"""Suites: the public InferenceX runs, and NVIDIA's own sweeps."""

ENGINES = ("vllm", "trtllm", "sglang")

SCHEMES: dict[str, formats.Scheme | None] = {
    "bfloat16": None,
    "float16": None,
    "int8_wo": formats.integer(8, None, False, None, ""),
    "int4_wo": formats.integer(4, 128, True, None, ""),
    "sq": formats.integer(8, None, False, "int8", ""),
    "fp8": formats.fp8(calibrated=True),
    "fp8_static": formats.fp8(calibrated=True),
    "fp8_ootb": formats.fp8(),
    "fp8_block": formats.fp8((128, 128)),
    "nvfp4": formats.nvfp4(),
    "w4afp8": formats.integer(4, 128, False, "fp8", ""),
    "w4a16_mxfp4": formats.mxfp4(),
    "w4a8_mxfp4_mxfp8": formats.mxfp4("fp8"),
}
"""Value of `gemm_quant_mode` or `moe_quant_mode` -> how those weights are stored and multiplied; None: 16 bits.

Scales of `fp8` are in the checkpoint, as ModelOpt writes them.
"""

KINDS = {
    "bfloat16": ("bf16", "fp16"),
    "float16": ("bf16", "fp16"),
    "int8_wo": ("w8a16",),
    "int4_wo": ("w4a16",),
    "sq": ("w8a8", "int8"),
    "fp8": ("fp8",),
    "fp8_static": ("fp8",),
    "fp8_ootb": ("fp8",),
    "fp8_block": ("fp8",),
    "nvfp4": ("nvfp4", "mxfp4"),
    "w4afp8": ("w4a8",),
    "w4a16_mxfp4": ("mxfp4",),
    "w4a8_mxfp4_mxfp8": (),
}
"""Value of a mode -> how precisions of checkpoints begin that it stands for: what the checkpoint itself says of its
scales and of what stays at 16 bits is right then. The files call the MXFP4 of gpt-oss `nvfp4`."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """Degrees of one replica, and how many replicas share the clients."""

    tp: float
    pp: float
    attention_dp: float
    ep: float
    replicas: float = 1.0
    repaired: bool = False  # the labels said otherwise
    suspect: str | None = None  # why the labels cannot be right

    @property
    def devices(self) -> float:
        """Devices of one replica."""
        return self.tp * self.pp * self.attention_dp


def suite(source_tag: str) -> str:
    """Who measured: InferenceX, whose tag is a database dump or a date, or NVIDIA."""
    return INFERENCEX if re.match(r"db-dump|\d{4}-\d{2}-\d{2}", source_tag) else NVIDIA


def has_experts(model: Model) -> bool:
    """True for a mixture of experts."""
    return any(isinstance(block.feedforward, Experts) for block in model.blocks)


def labelled_model(name: str, gemm: str, moe: str) -> workloads.ModelEntry:
    """The model at the precisions of the labels: `moe` for routed experts, `gemm` for the rest; "": the checkpoint's.

    Raises:
      ValueError: one line: a model that the catalogue does not have, or a mode that is not known.
    """
    for column, mode in (("gemm_quant_mode", gemm), ("moe_quant_mode", moe)):
        if mode and mode not in SCHEMES:
            raise ValueError(f"{column} = {mode!r} is not known; known: {', '.join(SCHEMES)}")
    own = workloads.model(name)
    entry = own if _says(own, gemm) else workloads.model(name, weights=_override(gemm))
    if not has_experts(entry.model):
        return entry
    if not moe or (_says(own, moe) and entry is own) or (moe == gemm and entry is not own):
        return entry
    held = _expert_weights(own.model) if _says(own, moe) else _weights(own.model.head, moe)
    blocks = tuple(
        dataclasses.replace(block, feedforward=dataclasses.replace(block.feedforward, up=held, down=held))
        if isinstance(block.feedforward, Experts)
        else block
        for block in entry.model.blocks
    )
    model = dataclasses.replace(entry.model, blocks=blocks)
    return dataclasses.replace(entry, model=model, precision=f"{entry.precision}, experts {moe}")


def _says(own: workloads.ModelEntry, mode: str) -> bool:
    """True where `mode` is what the checkpoint itself says."""
    return not mode or own.precision.startswith(KINDS[mode])


def _override(mode: str) -> str:
    """The catalogue's name of a precision for all linear layers."""
    names = {
        "bfloat16": "bf16",
        "float16": "fp16",
        "int8_wo": "w8a16",
        "int4_wo": "w4a16",
        "sq": "int8",
        "fp8_ootb": "fp8",
        "fp8_block": "fp8",
        "nvfp4": "nvfp4",
        "w4afp8": "w4a8",
        "w4a16_mxfp4": "mxfp4",
        "w4a8_mxfp4_mxfp8": "mxfp4",
    }
    return names.get(mode, "fp8-static")


def _weights(base: WeightFormat, mode: str) -> WeightFormat:
    scheme = SCHEMES[mode]
    return WeightFormat(bytes=2.0, compute="bf16") if scheme is None else scheme.weight_format(base)


def _expert_weights(model: Model) -> WeightFormat:
    return next(block.feedforward.up for block in model.blocks if isinstance(block.feedforward, Experts))


def layout(numbers: dict[str, Any], family: str, mixture: bool) -> Layout:
    """The devices that ran, from tp, pp, attention dp, expert tp and ep, concurrency and batch size of a row.

    Rules, in this order:
    1. Dense models have no expert degrees, whatever their labels say.
    2. InferenceX rows whose expert tp and ep are both n > 1 and whose tp x attention dp is n squared ran on n devices:
       tp x ep was multiplied where the suite counts the same n devices twice.
    3. An empty attention dp is what the experts' devices leave of tp, where that is a whole number; else 1.
    4. Experts on another number of devices than attention: the labels cannot be right.
    5. Clients over attention dp x batch size, where it is whole and above 1, is the number of replicas.
    """
    tp, pp = numbers["tp_size"], numbers["pp_size"] or 1.0
    groups = numbers["attention_dp_size"]
    width, experts = numbers["moe_tp_size"] or 1.0, numbers["moe_ep_size"] or 1.0
    repaired, suspect = False, None
    if not mixture:
        width, experts, groups = tp, 1.0, groups or 1.0
    elif family == INFERENCEX and width == experts > 1.0 and tp * (groups or 1.0) == experts**2:
        repaired = True
        tp, groups = (experts, 1.0) if tp > 1.0 else (1.0, experts)
        width = 1.0
    elif groups is None:
        spread = width * experts / tp
        groups = spread if spread >= 1.0 and spread == int(spread) else 1.0
        repaired = groups != 1.0
    if mixture and not repaired and width * experts != tp * groups:
        if width * experts == 1.0:  # not said
            experts = 1.0
        else:
            suspect = f"experts on {width * experts:g} devices, attention on {tp * groups:g}"
    return Layout(
        tp=tp,
        pp=pp,
        attention_dp=groups,
        ep=experts,
        replicas=_replicas(numbers, groups, repaired),
        repaired=repaired,
        suspect=suspect,
    )


def _replicas(numbers: dict[str, Any], groups: float, repaired: bool) -> float:
    """Copies of the deployment behind one endpoint."""
    clients, batch = numbers["concurrency"], numbers["batch_size"]
    if clients is None or batch is None or repaired:
        return 1.0
    copies = clients / (batch * groups)
    return copies if copies > 1.0 and abs(copies - round(copies)) < 1e-6 else 1.0
