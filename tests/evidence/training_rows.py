"""Published training runs as one iteration each: rows of MLPerf Training, of MaxText's recipes and of AWS Neuron."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import hwspaces
import workloads
from jaxroof.deployment import Deployment
from jaxroof.efficiency import datasheet
from jaxroof.hardware import Hardware
from jaxroof.jobs.scenario import Scenario
from jaxroof.jobs.train import training_rules
from jaxroof.memory.legality import first_broken
from jaxroof.model import Model
from jaxroof.training import RECOMPUTES, LoRA, Training
from jaxroof.training.schedules import schedule_code
from sweeps.measure.validate.measured_csv import CsvRow, LeftOut, records, rows

BENCHMARKS = {"llama31_8b": "Llama-3.1-8B", "llama31_405b": "Llama-3.1-405B", "llama2_70b_lora": "Llama-2-70B"}
"""Benchmark of MLPerf Training -> its model."""

ADAPTERS = LoRA(rank=16.0, targets=("q", "k", "v", "o"), dropout=1.0)
"""Adapters of the benchmark whose name ends in lora. Source: mlcommons/training, llama2_70b_lora/README.md."""

UNSTATED = "fp8"
"""Precision of recipes of MLPerf whose file names none: FP8 of their config_common.sh is True."""

WEIGHTS = {"fp4": "nvfp4", "fp8": "fp8", "bf16": "bf16"}
"""Precision of a recipe's products -> what the workloads call it."""

STORED = {"fp4": 2.0, "fp8": 1.0, "bf16": 2.0}
"""B per weight that products read and copies send each other: FP8_PARAM_GATHER of the recipes' config_common.sh, which
config_common_fp4.sh sets to False."""

GATHERED = {"fp4": 0.5 + 1.0 / 16.0, "fp8": 1.0, "bf16": 2.0}
"""B per element that sequence parallelism gathers, as products read it: NVFP4 has a scale per 16."""

OVERLAPPED = {"fp4": "none", "fp8": "gemm", "bf16": "gemm"}
"""What tensor-parallel messages run behind: TP_COMM_OVERLAP, which config_common_fp4.sh sets to False."""

TPUS = {"v5p": ("TPU-v5p", 1.0), "v6e": ("TPU-v6e", 1.0), "v7": ("TPU-v7x", 2.0)}
"""TPU of a row -> accelerator of the catalogue, and the JAX devices that one of it is."""

MAXTEXT = {
    "deepseek3-671b": "DeepSeek-V3",
    "gemma4-26b": "Gemma-4-26B-A4B",
    "llama4-17b-128e": "Llama-4-Maverick-17B-128E",
    "llama4-17b-16e": "Llama-4-Scout-17B-16E",
    "mistral-7b": "Mistral-7B-v0.1",
    "qwen3-480b-a35b": "Qwen3-Coder-480B-A35B",
}
"""Model of a MaxText recipe, lower case -> model of the catalogue, where the catalogue does not know it by that name.
Source: MaxText, src/MaxText/configs/models."""

NEURON = {"Llama-3.1-70B pre-training": ("Llama-3.1-70B", 16.0, 8.0, 4.0)}
"""Row of AWS Neuron -> its model, tp, pp and dp in chips of two NeuronCores: TP=32 PP=8 DP=4 of cores."""


@dataclasses.dataclass(frozen=True)
class Run:
    """One published run and what it is told apart by."""

    device: str
    case: str
    precision: str
    engine: str
    hardware: Hardware
    model: Model
    deployment: Deployment
    training: Training
    seconds: float  # of one iteration, measured


def training_runs(folder: Path) -> tuple[list[Run], list[LeftOut]]:
    """Every run of the three files whose layout and precision are stated, and the rows that are left out.

    Raises:
      ValueError: one line: a file cannot be read, or a column is missing.
    """
    found: list[Run] = []
    left: list[LeftOut] = []
    for name, (columns, read) in FILES.items():
        runs, others = records(rows(folder / name, (*columns, "flag", "step_time_s")), read, "config_id")
        found, left = found + runs, left + others
    return found, left


def mlperf(row: CsvRow) -> Run:
    """A row of MLPerf Training: NeMo and Megatron with a distributed optimiser, or LoRA beside frozen weights."""
    if row["flag"] not in ("", "config_batch_unchecked"):
        raise ValueError(f"flag {row['flag']}: its layout or precision is not known")
    if row["benchmark"] not in BENCHMARKS:
        raise ValueError(f"benchmark {row['benchmark']} is not known")
    values = row.numbers(("global_batch", "seq_tokens", "tp", "pp", "cp", "dp"))
    split, chunks, precision = values["tp"] > 1.0, row.number("vpp") or 1.0, _precision(row["precision"] or UNSTATED)
    deployment = Deployment(
        tp=values["tp"],
        pp=_several(values["pp"]),
        cp=_several(values["cp"]),
        dp=values["dp"],
        sequence_parallel=split,
        overlap=OVERLAPPED[precision] if split else "none",
        gather_bytes=GATHERED[precision] if split else None,
    )
    training = Training(
        global_batch=values["global_batch"],
        micro_batch=row.number("micro_batch") or 1.0,
        seq=values["seq_tokens"],
        zero=1.0,
        schedule=schedule_code("interleaved" if chunks > 1.0 else "1f1b"),
        virtual_stages=chunks,
        weight_bytes=STORED[precision],
        lora=ADAPTERS if row["benchmark"].endswith("lora") else None,
    )
    name = BENCHMARKS[row["benchmark"]]
    return _run(row, row["gpu"], row["benchmark"], name, precision, "mlperf", deployment, training)


def maxtext(row: CsvRow) -> Run:
    """A recipe of MaxText: states and weights sharded over all chips, one micro-batch, layers run again.

    `custom` policies keep or offload a part; which part is not in the file, so that all layers count as run again.
    """
    if row["flag"]:
        raise ValueError(f"flag {row['flag']}")
    model = _catalogue_name(row["model"])
    if not row["global_batch"]:
        raise ValueError("its batch is not stated")
    values = row.numbers(("chips", "global_batch", "seq_tokens"))
    name, parts = TPUS[row["tpu"]]
    precision = _precision("fp8" if row["precision"] == "fp8_full" else row["precision"])
    cp = max((row.number("ici_context_parallelism") or 1.0) / parts, 1.0)
    dp = values["chips"] / cp
    training = Training(
        global_batch=values["global_batch"],
        micro_batch=values["global_batch"] / dp,
        seq=values["seq_tokens"],
        zero=3.0,
        recompute=float(RECOMPUTES.index("full")),
        weight_bytes=STORED[precision],
    )
    deployment = Deployment(dp=dp, cp=_several(cp), context_kind="all_gather")
    return _run(row, name, row["model"], model, precision, "maxtext", deployment, training)


def neuron(row: CsvRow) -> Run:
    """A row of AWS Neuron: NeuronX Distributed with ZeRO-1 and layers run again."""
    if row["flag"]:
        raise ValueError(f"flag {row['flag']}")
    if row["model"] not in NEURON:
        raise ValueError(f"model {row['model']} is not known")
    values = row.numbers(("microbatch", "global_batch", "seq_tokens"))
    name, tp, pp, dp = NEURON[row["model"]]
    training = Training(
        global_batch=values["global_batch"],
        micro_batch=values["microbatch"],
        seq=values["seq_tokens"],
        zero=1.0,
        recompute=float(RECOMPUTES.index("selective")),
        gradient_bytes=4.0,
    )
    deployment = Deployment(tp=tp, pp=pp, dp=dp, sequence_parallel=True)
    return _run(row, "Trainium1", row["model"], name, "bf16", "neuron", deployment, training)


FILES: dict[str, tuple[tuple[str, ...], Callable[[CsvRow], Run]]] = {
    "serving2/mlperf_training.csv": (("gpu", "benchmark", "tp", "pp", "cp", "vpp", "dp", "precision"), mlperf),
    "serving2/tpu_training.csv": (("tpu", "chips", "model", "precision", "ici_context_parallelism"), maxtext),
    "serving2/neuron_training.csv": (("model", "microbatch", "global_batch", "seq_tokens"), neuron),
}
"""File -> columns that it must have, and what makes a run of one of its rows."""


def _run(
    row: CsvRow,
    device: str,
    case: str,
    model: str,
    precision: str,
    engine: str,
    deployment: Deployment,
    training: Training,
) -> Run:
    """The run, if it is legal; ValueError with the broken rule's sentence."""
    entry, found = hwspaces.hardware(device), workloads.model(model, weights=WEIGHTS[precision])
    scenario = Scenario(
        hardware=entry.hardware,
        model=found.model,
        deployment=deployment,
        workload=training,
        efficiency=datasheet(),  # no rule depends on it
    )
    broken = first_broken(training_rules(scenario))
    if broken is not None:
        raise ValueError(broken)
    seconds = row.numbers(("step_time_s",))["step_time_s"]
    return Run(entry.name, case, precision, engine, entry.hardware, found.model, deployment, training, seconds)


def _catalogue_name(name: str) -> str:
    """The catalogue's name of a MaxText recipe's model; ValueError where it has none."""
    try:
        return workloads.model(MAXTEXT.get(name.lower(), name)).name
    except ValueError:
        raise ValueError(f"model {name} is not in the catalogue") from None


def _precision(word: str) -> str:
    if word not in WEIGHTS:
        raise ValueError(f"precision {word} is not known")
    return word


def _several(number: float) -> float | None:
    return number if number > 1.0 else None
