"""Accelerators from a `hardware_config.json` of the BLIS inference simulator."""

from collections.abc import Mapping
from typing import Any

from hwspaces.accelerators.entry import HardwareEntry, assembled
from hwspaces.quantities.units import formatted, nearest, positive

_FIGURES = {  # key -> (leaf paths, size of its unit in SI units)
    # The form has one 16-bit peak, which stands for both formats.
    "TFlopsPeak": (("matrix.bf16", "matrix.fp16"), 1e12),
    "TFlopsFP8": (("matrix.fp8",), 1e12),
    "BwPeakTBs": (("memory.hbm.bandwidth",), 1e12),
    # Capacities are in binary units, bandwidths in decimal ones.
    "MemoryGiB": (("memory.hbm.capacity",), 2.0**30),
}
UTILISATIONS = ("mfuPrefill", "mfuDecode", "BwEffConstant", "TOverheadMicros")
"""Keys of the efficiency that the same file holds: `hwspaces.performance.efficiency` reads them."""

UNUSED = (
    "perLayerOverhead",
    "tpScalingExponent",
    "decodeTpScalingExponent",
    "mfuPrefillMultiplier",
    "mfuDecodeMultiplier",
    "prefillBwFactor",
    "decodeBwFactor",
    "prefillOverheadMicros",
    "mixedPrefillOverheadMicros",
    "allReduceLatency",
)  # calibration of that simulator, older revisions of the form included
_REQUIRED = ("TFlopsPeak", "BwPeakTBs", "MemoryGiB")
VECTOR_FRACTION_OF_MATRIX = 1 / 16
"""The form has no vector rate: taken as this share of the 16-bit matrix peak (A100: 19.5 of 312). An assumption."""


def blis_entry(name: str, table: Mapping[str, Any], file: str) -> HardwareEntry:
    """The accelerator that one object of a BLIS `hardware_config.json` describes.

    Peaks and memory are taken. Utilisations (`mfuPrefill`, `mfuDecode`, `BwEffConstant`) are an efficiency, which
    `--efficiency FILE.json` asks for; other calibration of that simulator is reported and not used. Cores, caches and
    links are not in the form: unknown.

    Raises:
      ValueError: one line that names file, field, value and what is allowed.
    """
    where = f"{file}: {name}"
    figures, sources, unused = _figures(name, table, file, where)
    # The form gives neither cores nor a vector rate: the device is taken as one core, and its vector rate as a share of
    # its peak.
    total = VECTOR_FRACTION_OF_MATRIX * figures["matrix.bf16"]
    figures |= {"cores.count": 1.0, "cores.vector_flops": total}
    sources |= {"cores.count": "assumption", "cores.vector_flops": "assumption"}
    assumptions = (
        "number of cores unknown: the whole device is taken as one core",
        f"vector rate unknown: {VECTOR_FRACTION_OF_MATRIX:g} of the 16-bit matrix peak, {formatted(total, 'FLOP/s')}",
    )
    # The user is told of calibration that this entry does not apply: peaks alone are not what that simulator predicts.
    given = [f"{key} = {table[key]:g}" for key in UTILISATIONS if table.get(key)]
    if given:
        assumptions += (f"an efficiency of its own, --efficiency {file}#{name}: {', '.join(given)}",)
    if unused:
        assumptions += (f"not used: {', '.join(unused)}",)
    return HardwareEntry(
        name=name,
        aliases=(),
        vendor=None,
        product=None,
        architecture=None,
        status=None,
        date=None,
        hardware=assembled(figures, where),
        figures=figures,
        sources=sources,
        assumptions=assumptions,
        notes=(),
        file=file,
    )


def _figures(
    name: str, table: Mapping[str, Any], file: str, where: str
) -> tuple[dict[str, float], dict[str, str], list[str]]:
    """Figures by leaf path, their sources, and the keys that are not used, each with its value."""
    known = (*_FIGURES, *UTILISATIONS, *UNUSED)
    figures, sources, unused = {}, {}, []
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"{where}: {key} = {value!r} is not known{nearest(key, known)}")
        # Calibration is no figure of the device. It may be 0, which is none of it; anything else must be a positive
        # number.
        if key in (*UTILISATIONS, *UNUSED):
            if value != 0 or isinstance(value, bool):
                positive(value, f"{where}: {key}")
            unused += [f"{key} = {value:g}"] if key in UNUSED else []
            continue
        # 0 stands for matrix units without FP8.
        if key == "TFlopsFP8" and value == 0:
            continue
        paths, size = _FIGURES[key]
        for path in paths:
            figures[path] = positive(value, f"{where}: {key}", size)
            sources[path] = f"{key} of {name} in {file}"
    for key in _REQUIRED:
        if key not in table:
            raise ValueError(f"{where}: {key} is missing; it must hold {', '.join(_REQUIRED)}")
    return figures, sources, unused


def utilisations(table: Mapping[str, Any], where: str) -> dict[str, float]:
    """`UTILISATIONS` of an object of the form; a share of the bandwidth or an overhead that is missing or 0 is none.

    Raises:
      ValueError: one line, for a utilisation that is missing or above 1.
    """
    values = {"BwEffConstant": 1.0, "TOverheadMicros": 0.0}
    for key in UTILISATIONS:
        value = table.get(key, 0)
        # Keys that have a value here already may be missing or 0; both utilisations must be given.
        if key in values and value == 0 and not isinstance(value, bool):
            continue
        if key not in table:
            raise ValueError(f"{where}: {key} is missing; an efficiency has {UTILISATIONS[0]} and {UTILISATIONS[1]}")
        values[key] = positive(value, f"{where}: {key}")
        if key != "TOverheadMicros" and values[key] > 1.0:
            raise ValueError(f"{where}: {key} = {value!r} must be in (0, 1]: it is a share of the datasheet's figure")
    return values
