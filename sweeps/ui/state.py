"""State of the explorer: what its controls say, as a case, as a command and as Python."""

import dataclasses
import json
import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any

import hwspaces
import workloads
from sweeps.ask.cases import Case, case

MOST = 10**9
"""Largest count that a control takes: tokens, requests and devices."""

FACTOR = 16.0
"""Most by which a figure of the catalogue is multiplied or divided."""

DEGREES = ("tp", "pp", "attention_dp")
"""Degrees whose product is the devices of one replica."""


@dataclasses.dataclass(frozen=True)
class Control:
    """How the page sets one field of the state."""

    group: str
    label: str
    kind: str  # "name", "text", "count" or "factor"
    choices: Callable[[], tuple[str, ...]] = tuple  # of a name; of a text: suggestions
    slider: tuple[float, float] | None = None  # ends of a slider, whose steps are of the logarithm
    hint: str = ""


def _control(default: Any, *words: Any, **more: Any) -> Any:
    return dataclasses.field(default=default, metadata={"control": Control(*words, **more)})


def _powers(most: int) -> Callable[[], tuple[str, ...]]:
    return lambda: tuple(str(1 << n) for n in range(most.bit_length()))


def _factor(label: str) -> Any:
    return _control(1.0, "Hardware", label, "factor", slider=(1 / 8, 8.0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class State:
    """One question of the explorer. Fields are keys of the URL; names may be files that the command line names."""

    hardware: str = _control(
        "H200-SXM", "Hardware", "Accelerator", "name", lambda: tuple(sorted(hwspaces.names(), key=str.lower))
    )
    hbm_bandwidth: float = _factor("Memory bandwidth")
    hbm_capacity: float = _factor("Memory capacity")
    matrix: float = _factor("Matrix peak")
    link: float = _factor("Link bandwidth")
    model: str = _control("Llama-3.1-70B", "Model", "Model", "name", lambda: workloads.names())
    weights: str = _control(
        "",
        "Model",
        "Weights",
        "text",
        lambda: ("bf16", "fp8", "int8", "w4a16", "nvfp4", "mxfp4", "q4_k_m"),
        hint="precision in place of the checkpoint's",
    )
    kv: str = _control("", "Model", "KV cache", "name", lambda: ("", "bf16", "fp16", "fp8", "int8", "fp4"))
    engine: str = _control("", "Model", "Engine", "text", lambda: hwspaces.engine_names(), hint="default: the newest")
    tp: int = _control(4, "Deployment", "Tensor parallel (tp)", "count", _powers(64))
    pp: int = _control(1, "Deployment", "Pipeline parallel (pp)", "count", _powers(16))
    attention_dp: int = _control(1, "Deployment", "Attention DP", "count", _powers(64))
    ep: int = _control(1, "Deployment", "Expert parallel (ep)", "count", _powers(128))
    devices: int | None = _control(
        None, "Deployment", "Devices", "count", _powers(1024), hint="default: one replica; more are replicas of it"
    )
    batch: int = _control(16, "Load", "Requests at once", "count", slider=(1, 1024), hint="per replica")
    isl: int = _control(2048, "Load", "Prompt tokens", "count", slider=(16, 131072))
    osl: int = _control(256, "Load", "Output tokens", "count", slider=(1, 16384))


CONTROLS: Mapping[str, Control] = {field.name: field.metadata["control"] for field in dataclasses.fields(State)}
"""Controls of the page by field, in their order."""

DEFAULT = State()
"""What the page opens with where the command line names nothing."""


def figures(state: State) -> dict[str, dict[str, str]]:
    """What the factors make of the accelerator's figures: control -> path -> text with its unit, "9.6 TB/s".

    A figure that the accelerator does not have has no path.
    """
    hardware = hwspaces.hardware(state.hardware).hardware
    link = hardware.links.scale_up
    own = {
        "hbm_bandwidth": {"memory.hbm.bandwidth": (hardware.memory.hbm.bandwidth, "B/s")},
        "hbm_capacity": {"memory.hbm.capacity": (hardware.memory.hbm.capacity, "B")},
        "matrix": {f"matrix.{precision}": (peak, "FLOP/s") for precision, peak in hardware.matrix.items()},
        "link": {} if link is None else {"links.scale_up.bandwidth": (link.bandwidth, "B/s")},
    }
    return {
        name: {
            # Four digits, so that the command is short and says exactly what is computed.
            f"hardware.{path}": hwspaces.formatted(float(value) * getattr(state, name), unit, 4)
            for path, (value, unit) in paths.items()
        }
        for name, paths in own.items()
    }


def words(state: State, scaled: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """Keywords of `sweeps.request` for the state; what is as by default is left out.

    Args:
      state: of the controls.
      scaled: its `figures`, read once for all that is said of one state: a file may change at any time.

    Raises:
      ValueError: where the devices are not whole replicas.
    """
    degrees = {name: getattr(state, name) for name in (*DEGREES, "ep") if getattr(state, name) != 1}
    if state.devices is not None:
        replica = math.prod(getattr(state, name) for name in DEGREES)
        if state.devices % replica:
            words = " x ".join(f"{name} {getattr(state, name)}" for name in DEGREES)
            raise ValueError(f"devices = {state.devices} must be a multiple of {replica}, those of a replica ({words})")
        degrees |= {"dp": state.devices // replica} if state.devices != replica else {}
    overrides: dict[str, str] = {}
    for name, paths in scaled.items():
        # Without spaces a command needs no quotes.
        changed = paths if getattr(state, name) != 1.0 else {}
        overrides |= {path: text.replace(" ", "") for path, text in changed.items()}
    named = {name: getattr(state, name) for name in ("weights", "kv", "engine") if getattr(state, name)}
    return {
        "hardware": state.hardware,
        "model": state.model,
        **({"deployment": degrees} if degrees else {}),
        **named,
        **({"set": overrides} if overrides else {}),
        "workload": {name: getattr(state, name) for name in ("batch", "isl", "osl")},
    }


def case_of(asked: Mapping[str, Any]) -> Case:
    """The case of a static batch of requests that `words` describe; ValueError of one line where it cannot be."""
    given = dict(asked)
    return case("request", overrides=given.pop("set", None), **given)


def command(asked: Mapping[str, Any]) -> str:
    """The command that prints the answer to `words`."""
    parts = ["jaxroof", "request"]
    for name, value in asked.items():
        if name == "set":
            parts += [word for path, text in value.items() for word in ("--set", f"{path}={text}")]
        else:
            # Tables of the deployment and the workload are flags of their own.
            for key, one in value.items() if isinstance(value, dict) else [(name, value)]:
                parts += [f"--{key.replace('_', '-')}", str(one)]
    return shlex.join(parts)


def snippet(asked: Mapping[str, Any]) -> str:
    """The Python that computes the answer to `words`; `found.metrics` are its numbers in SI units, by name."""
    # Texts, whole numbers and tables of them are written alike in JSON and in Python.
    arguments = "".join(f"    {name}={json.dumps(value, ensure_ascii=False)},\n" for name, value in asked.items())
    return (
        f"import sweeps\n\nfound = sweeps.request(\n{arguments})\n"
        'print(found.metrics["ttft"], found.metrics["tpot"], found.metrics["tokens_per_second_per_device"])\n'
    )
