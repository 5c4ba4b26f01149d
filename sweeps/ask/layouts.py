"""Layouts of a model over a number of devices: those worth trying, and those that are legal."""

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from jaxroof.deployment import Deployment
from jaxroof.hardware import Hardware, Link, Links
from jaxroof.memory.legality import broken_rule
from jaxroof.model import Model
from sweeps.ask.deployments import with_settings
from sweeps.ask.training import divisors

Layout = dict[str, int]
"""Parallel degrees by name; a degree that is not there is 1."""

MOST_DEVICES = 16_384
"""Devices that a search looks at: layouts and splits of more take minutes each."""


def powers_of_two(most: int) -> list[int]:
    """Numbers of devices up to `most` that are tried; ValueError of one line beyond `MOST_DEVICES`."""
    if most > MOST_DEVICES:
        raise ValueError(f"max_devices = {most:,} must be at most {MOST_DEVICES:,}")
    return [2**i for i in range(int(most).bit_length()) if 2**i <= most]


def layouts(devices: int, experts: bool) -> tuple[Layout, ...]:
    """Every way to be tried of spreading one replica over `devices` devices.

    Dense: every tp x pp = devices.
    With experts: every tp x attention_dp x pp = devices, and for each of them

    - without attention_dp: ep = 1 (experts split by width, as everything else) and ep = tp (by expert);
    - with attention_dp: ep = attention_dp (by expert between groups, by width inside) and ep = tp x attention_dp.
      A smaller ep would leave every device with a part of every expert, which no engine combines with it.

    Independent replicas (dp) change no figure per device, and context parallelism pays for long prompts of few
    requests only: neither is tried. pp is always there, and attention_dp and ep as the model or the split needs them,
    so that all layouts have one structure, or two where the model has experts.
    """
    candidates = []
    # Pipeline stages split the layers; tp and groups of attention split the devices of one stage.
    for pp in divisors(devices):
        stage = devices // pp
        for tp in reversed(divisors(stage)):
            groups = stage // tp
            # A dense model has no groups: tp takes the whole stage.
            if not experts:
                candidates += [{"tp": tp, "pp": pp}] if tp == stage else []
                continue
            spread = {"attention_dp": groups} if groups > 1 else {}
            # Without groups ep is 1 or tp; with them it is their number, or all devices of a stage.
            candidates += [{"tp": tp, "pp": pp, **spread, "ep": ep} for ep in dict.fromkeys((groups, stage))]
    return tuple(candidates)


def groups_of(layout: Mapping[str, Any]) -> int:
    """Groups of a layout that work on requests of their own: what its cache and its limits are of."""
    return int(layout.get("attention_dp") or 1)


def label(layout: Layout) -> str:
    """A layout in short, other degrees than tp left out where they are 1: "tp4 pp2", "tp1 attention_dp8 ep8"."""
    return " ".join(f"{name}{degree}" for name, degree in layout.items() if degree > 1 or name == "tp")


def possible(
    candidates: Iterable[Layout], hardware: Hardware, model: Model, plain: Deployment
) -> tuple[list[Layout], dict[str, str]]:
    """The layouts that the model allows on links that connect everything; label -> the broken rule of the others."""
    # One link connects everything, so that no size of a domain can refuse a layout; its speed decides nothing.
    everywhere = Link(bandwidth=1.0, latency=1.0, devices=math.inf)
    linked = dataclasses.replace(hardware, links=Links(scale_up=everywhere, scale_out=None))
    allowed, refused = [], {}
    for layout in candidates:
        rule = broken_rule(linked, model, with_settings(plain, layout))
        if rule is None:
            allowed.append(layout)
        else:
            refused[label(layout)] = rule
    return allowed, refused


def reach(hardware: Hardware) -> float:
    """Devices that the widest link of `hardware` connects; 1 without links."""
    links = (hardware.links.cluster, hardware.links.scale_out, hardware.links.scale_up)
    return float(next((link.devices for link in links if link is not None), 1.0))
