"""Passes of whole models in fp32 PyTorch, predicted and measured: inference and training steps of the label set."""

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import hwspaces
import workloads
from jaxroof.batch import Batch, Prefill
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.hardware import Hardware, Links, Power
from jaxroof.layers.collective import collective
from jaxroof.memory.capacity import parameter_count
from jaxroof.model import Model, WeightFormat
from jaxroof.numerics.arrays import eager, jax
from jaxroof.numerics.struct import given
from jaxroof.op import Collective, Ops
from jaxroof.roofline import op_time
from jaxroof.step.forward import step_ops
from sweeps.measure.validate.measured_csv import CsvRow, LeftOut, records, rows
from sweeps.measure.validate.relative_errors import grouped

SET = "neusight_label"

EFFICIENCY = "eager_fp32"
"""Constants of the kernels that were measured."""

GPUS = {
    "AMD_Instinct_MI100": "MI100",
    "AMD_Instinct_MI210": "MI210",
    "AMD_Instinct_MI250": "MI250",
    "NVIDIA_A100-PCIE-40GB": "A100-PCIe-40GB",
    "NVIDIA_A100-SXM4-40GB": "A100-SXM-40GB",
    "NVIDIA_A100_80GB_PCIe": "A100-PCIe-80GB",
    "NVIDIA_A100-PCIE-80GB": "A100-PCIe-80GB",
    "NVIDIA_A100-SXM4-80GB": "A100-SXM-80GB",
    "NVIDIA_H100_80GB_HBM3": "H100-SXM",
    "NVIDIA_H100_PCIe": "H100-PCIe",
    "NVIDIA_H100-PCIe": "H100-PCIe",
    "NVIDIA_L4": "L4",
    "Tesla_P100-PCIE-16GB": "P100-PCIe",
    "Tesla_P4": "P4",
    "Tesla_T4": "T4",
    "Tesla_V100-PCIE-32GB": "V100-PCIe",
}
"""GPU of a row -> accelerator of the catalogue."""

HALVES = ("MI250",)
"""Modules of two dies, of which software sees one."""

MODELS = {
    "bert_large": "BERT-large",
    "gpt2_large": "GPT-2-large",
    "gpt3_xl": "GPT-3-XL",
    "gpt3_27": "GPT-3-2.7B",
    "opt_13": "OPT-1.3B",
}
"""Model of a row -> model of the catalogue."""

WRITTEN_OUT = {"GPT-2-large": 8.0, "GPT-3-XL": 8.0, "GPT-3-2.7B": 8.0}
"""Kernels of an activation function that Python writes out: GPT-2's tanh approximation of GELU in Hugging Face
transformers, NewGELUActivation: three products with constants, two of arrays, a power, two sums, tanh, some at once."""

WITH_DROPOUT = 3.0
"""Kernels between the products of unfused attention when training: scale, mask and dropout."""

ALONE = ("single_gpu", "fusion")
"""Workloads of one device: eager mode, and torch.compile."""

SPREAD = re.compile(r"(dp|tp|pp)(\d+)(?:_(\d+))?")
"""Workloads of several: dp4, tp4, pp4_2 (two micro-batches)."""

MODES = {"inference_forward": "inference", "training_step": "training"}


class MeasuredPass(NamedTuple):
    """One measured pass or pair of passes."""

    name: str
    gpu: str  # accelerator of the catalogue
    model: str
    mode: str  # inference, or training: forward and backward, without the optimiser's step
    workload: str  # of ALONE, or like SPREAD
    sequences: float
    tokens: float  # per sequence
    forward: float | None  # s
    backward: float | None  # s
    total: float  # s


class ScoredPass(NamedTuple):
    """A label and what was predicted for it, s."""

    label: MeasuredPass
    forward: float
    backward: float  # with the all-reduce of gradients; 0 of inference

    @property
    def error(self) -> float:
        """predicted / measured - 1 of the whole step."""
        return (self.forward + self.backward) / self.label.total - 1.0


def measured_passes(file: str | Path) -> tuple[list[MeasuredPass], list[LeftOut]]:
    """Rows of the label set in a file of measured runs.

    Raises:
      ValueError: one line: the file cannot be read, or a column is missing.
    """
    columns = ("set", "exp_id", "gpu", "model", "mode", "workload", "batch", "prompt_tokens", "gt_e2e_ms")
    return records((row for row in rows(file, columns) if row["set"] == SET), _measured, "exp_id")


def _measured(row: CsvRow) -> MeasuredPass:
    """Raises ValueError where GPU, model, mode or workload is not known."""
    for column, names in (("gpu", GPUS), ("model", MODELS), ("mode", MODES)):
        if row[column] not in names:
            raise ValueError(f"{column} {row[column]} is not known")
    # Neither a way of running on one device nor degrees over several.
    if row["workload"] not in ALONE and SPREAD.fullmatch(row["workload"]) is None:
        raise ValueError(f"workload {row['workload']} is not known")
    known = row.numbers(("batch", "prompt_tokens", "gt_e2e_ms"))
    # Files that time the two passes apart have them in ms beside the total; others leave them empty.
    passed = [row.number(column) for column in ("gt_fw_ms", "gt_bw_ms")]
    forward, backward = (None if time is None else time * 1e-3 for time in passed)
    return MeasuredPass(
        name=row["exp_id"],
        gpu=GPUS[row["gpu"]],
        model=MODELS[row["model"]],
        mode=MODES[row["mode"]],
        workload=row["workload"],
        sequences=known["batch"],
        tokens=known["prompt_tokens"],
        forward=forward,
        backward=backward,
        total=known["gt_e2e_ms"] * 1e-3,
    )


def scored_passes(rows: Iterable[MeasuredPass], efficiency: Efficiency) -> list[ScoredPass]:
    """Every label with its prediction, on NumPy: a program for each structure would take longer than all passes."""

    def seconds(ops: Ops, hardware: Hardware) -> float:
        with eager():
            return float(sum(op.count * op_time(op, hardware, efficiency) for op in ops.values()))

    scored = []
    for label in rows:
        linked = label.workload not in ALONE
        degrees, micro_batches = layout(label.workload)
        # A pipeline of p stages takes m + p - 1 turns of one stage for m micro-batches; the ops are those of all p
        # stages.
        turns = (micro_batches + degrees.get("pp", 1.0) - 1.0) / degrees.get("pp", 1.0)
        hardware = device(label.gpu, linked)
        forward, backward = (
            # A device alone has no links to price collectives on.
            {n: op for n, op in ops.items() if linked or not isinstance(op, Collective)}
            for ops in passes(label)
        )
        scored.append(
            ScoredPass(
                label,
                turns * seconds(forward, hardware),
                turns * seconds(backward, hardware) if backward else 0.0,
            )
        )
    return scored


def pass_errors(found: Iterable[ScoredPass]) -> dict[str, dict[str, dict[str, float]]]:
    """Device -> mode, or all -> rows, mean absolute error and mean error."""

    def kind(row: ScoredPass) -> str:
        label = row.label
        # Eager runs on one device are the usual ones; others say their workload too.
        return label.mode if label.workload == "single_gpu" else f"{label.mode}, {label.workload}"

    def means(rows: list[ScoredPass]) -> dict[str, float]:
        errors = [row.error for row in rows]
        absolute = sum(map(abs, errors)) / len(errors)
        return {"rows": len(errors), "mean_absolute_error": absolute, "mean_error": sum(errors) / len(errors)}

    return {
        gpu: {mode: means(part) for mode, part in [*sorted(grouped(rows, kind).items()), ("all", rows)]}
        for gpu, rows in sorted(grouped(found, lambda row: row.label.gpu).items())
    }


def passes(label: MeasuredPass) -> tuple[Ops, Ops]:
    """Ops of one micro-batch's forward pass, with logits of every token, and of its backward pass; none of inference.

    With pipeline stages they are those of all stages, one after another.
    """
    training = label.mode == "training"
    model, deployment = fp32(workloads.model(label.model).model), _deployment(label)
    if training:
        model = dataclasses.replace(model, generates=True)  # BERT trains with its vocabulary's head
    # Each replica takes its share of the batch, in equal micro-batches.
    sequences = label.sequences / deployment.dp / layout(label.workload)[1]
    tokens = sequences * label.tokens
    # A pass over whole sequences is a prompt without past, with logits of every token.
    batch = Batch(prefill=Prefill(sequences=sequences, tokens=tokens, past=0.0), decode=None, logits=tokens)
    ops = {name: op for name, op in step_ops(model, deployment, batch).items() if op.role != "sampling"}
    if not training:
        return ops, {}
    from jaxroof.training.backward import backward_ops

    # B of one device's gradients in fp32; tensor parallelism splits the parameters.
    gradients = 4.0 * parameter_count(model) / deployment.tp
    return ops, backward_ops(ops, 4.0) | {
        "gradient_all_reduce": collective(
            "all_reduce", gradients, deployment.dp, 1.0, deployment.tp, parallelism="dp", role="replica"
        )
    }


def layout(workload: str) -> tuple[dict[str, float], float]:
    """Degrees that a workload's word gives, and micro-batches of its pipeline."""
    match = SPREAD.fullmatch(workload)
    if match is None:
        return {}, 1.0
    kind, ways, micro_batches = match.groups()
    return {kind: float(ways)}, float(micro_batches or 1)


def device(name: str, linked: bool = False) -> Hardware:
    """The accelerator as software sees it: one die of a module of two; only what passes in fp32 use of it.

    Args:
      linked: with its links.
    """
    catalogue_device = hwspaces.hardware(name).hardware
    # Constants of other precisions are dropped, so that all devices have one structure and share a program.
    energy = given(catalogue_device.energy, f"energy per operation of {name}")
    hardware = Hardware(
        matrix={"fp32": catalogue_device.matrix["fp32"]},
        cores=dataclasses.replace(catalogue_device.cores, shared_issue=catalogue_device.cores.shared_issue or 0.0),
        memory=catalogue_device.memory,
        links=catalogue_device.links if linked else Links(scale_up=None, scale_out=None),
        power=Power(tdp=catalogue_device.power.tdp),
        price=None,
        energy=dataclasses.replace(
            energy, matrix={"fp32": energy.matrix["fp32"]}, scale_up=None, scale_out=None, cluster=None
        ),
    )
    # Of a module of two dies, software sees one: half of cores, matrix peak, memory, L2 and power.
    if name not in HALVES:
        return hardware

    def half(level: Any) -> Any:
        return jax.tree.map(lambda figure: 0.5 * figure, level)

    return dataclasses.replace(
        hardware,
        matrix=half(hardware.matrix),
        cores=dataclasses.replace(hardware.cores, count=0.5 * hardware.cores.count),
        memory=dataclasses.replace(hardware.memory, hbm=half(hardware.memory.hbm), l2=half(hardware.memory.l2)),
        power=half(hardware.power),
    )


def fp32(model: Model) -> Model:
    """The model with every weight stored and multiplied in fp32."""

    def wide(leaf: Any) -> Any:
        return dataclasses.replace(leaf, bytes=4.0, compute="fp32") if isinstance(leaf, WeightFormat) else leaf

    return jax.tree.map(wide, model, is_leaf=lambda leaf: isinstance(leaf, WeightFormat))


def _deployment(label: MeasuredPass) -> Deployment:
    """Eager mode's kernels; those of a compiled model write neither scores nor activations more than once."""
    settings: dict[str, Any] = layout(label.workload)[0]
    # A compiler fuses what stands between two products into one of them.
    if label.workload == "fusion":
        settings["score_kernels"] = 0.0
    else:
        settings["activation_kernels"] = WRITTEN_OUT.get(label.model)
        settings["score_kernels"] = WITH_DROPOUT if label.mode == "training" else None
    return Deployment(
        attention_kernel="unfused",
        attention_compute="fp32",
        activation_bytes=4.0,
        communication_bytes=4.0,
        kv_bytes=4.0,
        **settings,
    )
