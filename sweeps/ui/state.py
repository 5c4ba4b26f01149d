"""State of the explorer: what its controls say, as the query of a URL, as a case, as a command and as Python."""

import dataclasses
import math
import shlex
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

import hwspaces
import workloads
from hwspaces.quantities.units import nearest
from sweeps.ask.cases import Case, case

MOST = 10**9
"""Largest count that a control takes: tokens, requests and devices."""

FACTOR = 16.0
"""Most by which a figure of the catalogue is multiplied or divided."""

LONGEST = 120
"""Characters of known names that an error lists."""

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
    """One question of the explorer. Fields are keys of the URL."""

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
"""What the page shows without a query."""


def state_of(query: str) -> State:
    """The state that the query of a URL says; what it does not name is as in `DEFAULT`.

    Raises:
      ValueError: one line that names the key, its value and what is allowed.
    """
    values: dict[str, Any] = {}
    for key, text in parse_qsl(query.removeprefix("?"), keep_blank_values=True):
        if key not in CONTROLS:
            raise ValueError(f"{key!r} is not a control{nearest(key, CONTROLS)}")
        if key in values:
            raise ValueError(f"{key} is given twice")
        values[key] = _value(key, text.strip())
    return State(**values)


def _value(key: str, text: str) -> Any:
    """The value that a text gives a field."""
    control, default = CONTROLS[key], getattr(DEFAULT, key)
    if control.kind == "count":
        if not text and default is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) <= 10 and 1 <= int(text) <= MOST):
            raise ValueError(f"{key} = {text!r} must be a whole number from 1 to {MOST:,}")
        return int(text)
    if control.kind == "factor":
        try:
            factor = float(text)
        except ValueError:
            factor = math.nan
        if not 1 / FACTOR <= factor <= FACTOR:
            raise ValueError(f"{key} = {text!r} must be a number from {1 / FACTOR:g} to {FACTOR:g}")
        return factor
    # Suggestions of a text are not all that is allowed: the case refuses what it does not know.
    if control.kind == "name" and text not in control.choices():
        near = nearest(text, control.choices())
        raise ValueError(f"{key} = {text!r} is not in the list{near if len(near) < LONGEST else ''}")
    return text


def query_of(state: State) -> str:
    """The query of a URL that gives the state again: every field that is not as in `DEFAULT`."""
    changed = {name: value for name in CONTROLS if (value := getattr(state, name)) != getattr(DEFAULT, name)}
    return urlencode(changed)


def figures(state: State) -> dict[str, dict[str, str]]:
    """What the factors make of the catalogue's figures: control -> path -> text with its unit, "9.6TB/s".

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
            f"hardware.{path}": hwspaces.formatted(float(value) * getattr(state, name), unit, 4).replace(" ", "")
            for path, (value, unit) in paths.items()
        }
        for name, paths in own.items()
    }


def words(state: State) -> dict[str, Any]:
    """Keywords of `sweeps.request` for the state; what is as by default is left out.

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
    for name, paths in figures(state).items():
        overrides |= paths if getattr(state, name) != 1.0 else {}
    named = {name: getattr(state, name) for name in ("weights", "kv", "engine") if getattr(state, name)}
    return {
        "hardware": state.hardware,
        "model": state.model,
        **({"deployment": degrees} if degrees else {}),
        **named,
        **({"set": overrides} if overrides else {}),
        "workload": {name: getattr(state, name) for name in ("batch", "isl", "osl")},
    }


def case_of(state: State) -> Case:
    """The case of a static batch of requests that the state describes; ValueError of one line where it cannot be."""
    given = words(state)
    return case("request", overrides=given.pop("set", None), **given)


def command(state: State) -> str:
    """The command that prints the state's answer."""
    parts = ["jaxroof", "request"]
    for name, value in words(state).items():
        if name == "set":
            parts += [word for path, text in value.items() for word in ("--set", f"{path}={text}")]
        else:
            # Tables of the deployment and the workload are flags of their own.
            for key, one in value.items() if isinstance(value, dict) else [(name, value)]:
                parts += [f"--{key.replace('_', '-')}", str(one)]
    return shlex.join(parts)


def snippet(state: State) -> str:
    """The Python that computes the state's answer; `found.metrics` are its numbers in SI units, by name."""
    arguments = "".join(f"    {name}={value!r},\n" for name, value in words(state).items()).replace("'", '"')
    return (
        f"import sweeps\n\nfound = sweeps.request(\n{arguments})\n"
        'print(found.metrics["ttft"], found.metrics["tpot"], found.metrics["tokens_per_second_per_device"])\n'
    )
