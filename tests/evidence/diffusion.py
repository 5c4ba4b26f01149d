"""Latency and energy of generated images and videos, against ML.ENERGY's: `python -m tests.evidence.diffusion`.

Every model is a diffusion transformer: `steps` passes over the tokens of a latent image or video, each a transformer
without a cache that all tokens see. One pass is priced as a prefill of a model that generates no tokens. Text encoders,
the decoder of the latent and kernels that PyTorch launches one by one between the products are left out. Several
devices share the tokens and pass keys and values in a ring; all-to-all exchanges (Ulysses) count as such a ring.
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console

import hwspaces
from jaxroof import batch
from jaxroof.batch import Encode
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency
from jaxroof.energy.energy import Joules, joules_of
from jaxroof.energy.governor import limited_time, mean_power
from jaxroof.hardware import Hardware
from jaxroof.layers.attention import Attention
from jaxroof.model import Block, FeedForward, Model, WeightFormat
from jaxroof.numerics.arrays import eager
from jaxroof.op import Ops
from jaxroof.step.overlap import overlapped_ops
from jaxroof.step.step import times_of
from sweeps.measure.validate.measured_csv import rows
from tests.evidence.engine_constants import engine_efficiencies
from tests.evidence.harness import command, data, score_table

WEIGHTS = WeightFormat(bytes=2.0, compute="bf16")


@dataclasses.dataclass(frozen=True)
class Transformer:
    """A diffusion transformer and what one sample of the benchmark's size makes it work on."""

    hidden: float
    heads: float
    layers: float
    intermediate: float
    tokens: float  # of the latent
    text: float  # tokens of the prompt, padded
    joint: bool  # they pass through the layers beside the latent's; else the latent's see them by cross-attention
    passes: float  # per step: 2 with classifier-free guidance, 1 where the guidance is an input
    second: float = 0.0  # layers with a second attention, of the latent's tokens alone


TRANSFORMERS = {
    "FLUX.1-dev": Transformer(3072.0, 24.0, 57.0, 12288.0, 4096.0, 512.0, True, 1.0),
    "stable-diffusion-3.5-large": Transformer(2432.0, 38.0, 38.0, 9728.0, 4096.0, 333.0, True, 2.0),
    "stable-diffusion-3.5-medium": Transformer(1536.0, 24.0, 24.0, 6144.0, 4096.0, 333.0, True, 2.0, 13.0),
    "PixArt-Sigma-XL-2-1024-MS": Transformer(1152.0, 16.0, 28.0, 4608.0, 4096.0, 300.0, False, 2.0),
    "HunyuanDiT-v1.2-Diffusers": Transformer(1408.0, 16.0, 40.0, 6144.0, 4096.0, 333.0, False, 2.0),
    "Wan2.1-T2V-1.3B-Diffusers": Transformer(1536.0, 12.0, 30.0, 8960.0, 21.0 * 30.0 * 52.0, 512.0, False, 2.0),
    "Wan2.1-T2V-14B-Diffusers": Transformer(5120.0, 40.0, 40.0, 13824.0, 21.0 * 30.0 * 52.0, 512.0, False, 2.0),
    "HunyuanVideo": Transformer(3072.0, 24.0, 60.0, 12288.0, 33.0 * 45.0 * 80.0, 256.0, True, 1.0),
    "CogVideoX-2b": Transformer(1920.0, 30.0, 30.0, 7680.0, 13.0 * 30.0 * 45.0, 226.0, True, 2.0),
    "CogVideoX1.5-5B": Transformer(3072.0, 48.0, 42.0, 12288.0, 11.0 * 48.0 * 85.0, 226.0, True, 2.0),
}
"""Model of the file -> its transformer, from `transformer/config.json` of its repository; tokens are frames x rows x
columns of patches at the benchmark's size (1024 x 1024; 81 frames of 480 x 832; 129 of 720 x 1280; 49 of 480 x 720; 81
of 768 x 1360). Blocks that compute attention and feed-forward in parallel (38 of FLUX, 40 of HunyuanVideo) count as the
others. SANA is missing: its linear attention and convolutions are no layers of ours."""


def model_of(one: Transformer) -> Model:
    """Its layers as a model that generates no tokens."""
    width = one.hidden / one.heads
    attention = Attention(
        heads=one.heads,
        kv_heads=one.heads,
        head_dim=width,
        value_dim=width,
        window=None,
        causal=False,
        qk_norm=1.0,
        qkv=WEIGHTS,
        output=WEIGHTS,
    )
    feedforward = FeedForward(intermediate=one.intermediate, up_projections=1.0, up=WEIGHTS, down=WEIGHTS)
    cross = None if one.joint else dataclasses.replace(attention, qk_norm=0.0)
    blocks = [
        Block(count=one.layers, attention=attention, cross=cross, feedforward=feedforward, other_parameters=0.0),
    ]
    if one.second:
        blocks.append(Block(count=one.second, attention=attention, feedforward=None, other_parameters=0.0))
    return Model(
        hidden=one.hidden,
        vocabulary=1.0,
        blocks=tuple(blocks),
        embedding=WEIGHTS,
        head=WEIGHTS,
        untied=0.0,
        other_parameters=0.0,
        generates=False,
    )


@dataclasses.dataclass(frozen=True)
class Generated:
    """One row: a batch of samples on `devices` devices, and what it took."""

    gpu: str
    model: str
    devices: float
    samples: float
    steps: float
    seconds: float
    watts: float  # of one device
    joules: float  # of all devices, per sample

    @property
    def hardware(self) -> Hardware:
        """Of the catalogue."""
        return hwspaces.hardware(self.gpu).hardware

    def ops(self) -> tuple[Ops, Deployment, batch.Batch]:
        """Of one step on one device."""
        one = TRANSFORMERS[self.model]
        sequences = self.samples * one.passes
        deployment = Deployment(cp=self.devices if self.devices > 1.0 else None)
        work = batch.prefill(sequences, one.tokens + (one.text if one.joint else 0.0))
        work = dataclasses.replace(work, logits=0.0)
        if not one.joint:
            text = Encode(sequences=sequences, tokens=sequences * one.text)
            work = dataclasses.replace(work, encode=text, encoded=one.text)
        return overlapped_ops(model_of(one), deployment, work), deployment, work


@dataclasses.dataclass(frozen=True)
class Found:
    """A row with its predictions."""

    row: Generated
    seconds: float  # of a batch
    energy: Joules  # of one step on one device
    factor: float = 1.0  # measured over predicted latency of the other models on this device: `with_factors`

    def power(self, seconds: float) -> float:
        """W of one device where a batch takes `seconds`."""
        return float(mean_power(seconds / self.row.steps, self.energy, self.row.hardware))

    def joules(self, seconds: float) -> float:
        """Of all devices per sample where a batch takes `seconds`."""
        return self.power(seconds) * self.row.devices * seconds / self.row.samples


def generated(folder: Path) -> list[Generated]:
    """Rows of serving2/mlenergy_diffusion.csv in a folder whose model is one of `TRANSFORMERS`."""
    columns = ("model_id", "gpu", "num_gpus", "batch_size", "inference_steps", "batch_latency_s", "power_w")
    found = []
    for row in rows(folder / "serving2" / "mlenergy_diffusion.csv", columns):
        name, values = row["model_id"].rpartition("/")[2], row.numbers(columns[2:])
        if name in TRANSFORMERS:
            devices, seconds, watts = values["num_gpus"], values["batch_latency_s"], values["power_w"]
            found.append(
                Generated(
                    gpu=f"{row['gpu']}-SXM",
                    model=name,
                    devices=devices,
                    samples=values["batch_size"],
                    steps=values["inference_steps"],
                    seconds=seconds,
                    watts=watts / devices,
                    joules=watts * seconds / values["batch_size"],
                )
            )
    return found


def predicted(folder: Path, efficiency: Efficiency) -> list[Found]:
    """Every row under one set of constants."""
    found = []
    with eager():
        for row in generated(folder):
            ops, deployment, work = row.ops()
            times = times_of(ops, row.hardware, deployment, work, efficiency)
            joules = joules_of(ops, row.hardware)
            seconds = row.steps * float(limited_time(sum(times.values()), joules, row.hardware))
            found.append(Found(row, seconds, joules))
    return found


def with_factors(found: list[Found]) -> list[Found]:
    """The same with the median factor between measured and predicted latency of the other models on the device."""

    def factor(of: Found) -> float:
        others = [one for one in found if one.row.gpu == of.row.gpu and one.row.model != of.row.model]
        return float(np.median([one.row.seconds / one.seconds for one in others]))

    return [dataclasses.replace(one, factor=factor(one)) for one in found]


FIGURES: Mapping[str, tuple[Callable[[Found], float], Callable[[Found], float]]] = {
    "latency": (lambda one: one.seconds, lambda one: one.row.seconds),
    "W at the measured time": (lambda one: one.power(one.row.seconds), lambda one: one.row.watts),
    "J per sample": (lambda one: one.joules(one.seconds), lambda one: one.row.joules),
    "latency, others' factor": (lambda one: one.factor * one.seconds, lambda one: one.row.seconds),
    "J, others' factor": (lambda one: one.joules(one.factor * one.seconds), lambda one: one.row.joules),
}
"""What is scored -> the prediction and the measured value."""


@command(data("folder with serving2/"))
def main(options: argparse.Namespace) -> None:
    """Score, print; returns the exit status."""
    found = with_factors(predicted(options.data, engine_efficiencies(None)["vllm"]))
    split = "devices", lambda one: one.row.devices > 1.0, "2 to 8", "1"
    table = score_table(found, FIGURES, lambda one: one.row.gpu, lambda one: one.row.model, split)
    Console(width=150).print(table)


if __name__ == "__main__":
    sys.exit(main())
