"""Stored bytes of quantised checkpoints: published sizes of files, and every method on one model of each family.

    python -m tests.evidence.checkpoints

It needs no data: configs are the catalogue's with a made quantisation config, and published sizes stand in the tests.
"""

import argparse
import pathlib
import sys
import tempfile
from typing import Any

import workloads
from jaxroof import Deployment
from jaxroof.memory import capacity
from tests.evidence.harness import command
from tests.workloads import test_gguf as gguf
from tests.workloads.test_quantization_formats import BNB, FP8, GROUP_FP4, quark, read, torchao
from workloads.models.catalogue import catalogue

FAMILIES = (
    *("Llama-3.1-8B", "Qwen3-30B-A3B", "Mixtral-8x7B", "DeepSeek-V3", "Llama-4-Scout-17B-16E", "gpt-oss-20b"),
    *("Gemma-3-12B", "Qwen3-Next-80B-A3B", "Mamba2-2.7B", "Phi-3-mini", "Falcon-7B", "GLM-4.5-Air", "Kimi-K2"),
    *("Nemotron-H-56B", "MiniMax-M2", "Whisper-large-v3"),
)
"""Models of the catalogue, one of each family of structures."""

METHODS: dict[str, dict[str, Any]] = {
    "bitsandbytes nf4": {"quantization_config": BNB | {"bnb_4bit_use_double_quant": True}},
    "bitsandbytes int8": {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}},
    "GPTQ, routers left out": {
        "quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128, "dynamic": {r"-:.*gate$": {}}}
    },
    "Quark MXFP4": {"quantization_config": quark(GROUP_FP4, GROUP_FP4)},
    "Quark FP8": {"quantization_config": quark(FP8, FP8)},
    "torchao int4": {"quantization_config": torchao("Int4WeightOnlyConfig", group_size=128)},
    "MLX 4 bit": {"quantization": {"group_size": 64, "bits": 4}},
    "FP8 in blocks": {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}},
}
"""Method -> what a config of it has."""


def bits(model: Any) -> float:
    """Bits per parameter of the language model, its head and embedding among them."""
    return 8.0 * float(capacity.weight_bytes(model, Deployment())) / float(capacity.parameter_count(model))


def published() -> list[str]:
    """Rows of published sizes and ours."""
    rows = ["| model | type | published | here | error |", "|---|---|---:|---:|---:|"]
    for name, wanted in gguf.BITS.items():
        found = bits(workloads.model("Llama-3.1-8B", weights=name).model)
        rows.append(
            f"| Llama 3.1 8B | {name} | {wanted:.4f} bits | {found:.4f} | {100 * (found / wanted - 1):+.2f} % |"
        )
    for (model, name), wanted in gguf.SIZES.items():
        found = gguf.stored(model, name)[0] / 2**30
        rows.append(f"| {model} | {name} | {wanted:.2f} GiB | {found:.2f} | {100 * (found / wanted - 1):+.2f} % |")
    return rows


def matrix() -> list[str]:
    """Bits per parameter of every family under every method, or why it is refused."""
    rows = [f"| model | {' | '.join(METHODS)} | q4_k_m |", f"|---|{'---:|' * (len(METHODS) + 1)}"]
    for name in FAMILIES:
        config = {key: value for key, value in catalogue()[name].config.items() if key != "quantization_config"}
        cells = []
        for keys in METHODS.values():
            with tempfile.TemporaryDirectory() as folder:
                try:
                    cells.append(f"{bits(read(pathlib.Path(folder), config, **keys).model):.2f}")
                except ValueError as error:
                    cells.append(f"refused: {str(error).rpartition(': ')[2]}")
        cells.append(f"{bits(workloads.model(name, weights='q4_k_m').model):.2f}")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


@command()
def main(options: argparse.Namespace) -> None:
    """Print both tables; returns the exit status."""
    print("\n".join([*published(), "", *matrix()]))


if __name__ == "__main__":
    sys.exit(main())
