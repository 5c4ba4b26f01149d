"""Energy and time of a network's layers in their mappings."""

from typing import Any

import numpy as np

from hwspaces import formatted
from sweeps.show import style


@style.styled
def network_energy(answer: dict[str, Any]) -> Any:
    """A figure of the energy of every layer by component, beside its time and the share of units that are busy.

    Args:
      answer: of `jaxroof map` for a network: totals, and `layers` with energies in J and time in s of one run each.
    """
    layers, components = answer["layers"], list(answer["energies"])
    names = [_label(each) for each in layers]
    counts = np.array([each["count"] for each in layers], float)
    # J by layer and component, of all occurrences of a layer: shape [layers, components].
    energies = np.array([[each["energies"].get(name, 0.0) for name in components] for each in layers]) * counts[:, None]
    times = np.array([each["time"] for each in layers]) * counts
    title = f"{answer['network']} on {answer['architecture']}: {formatted(answer['energy'], 'J')} and "
    title += f"{formatted(answer['time'], 's')} for all layers"
    per_mac = formatted(answer["energy"] / answer["macs"], "J")
    details = (
        f"{answer['macs'] / 1e9:.3g} G MACs, {per_mac} per MAC; the best mapping found of each layer, times its count"
    )
    fig = style.figure(9.6, 0.9 + 0.24 * len(layers), title, details, "jaxroof map")
    left, right = fig.subplots(1, 2, sharey=True, width_ratios=(2.2, 1.0))
    at = np.arange(len(layers))
    scale, floor = style.prefix(energies.sum(axis=1), "J")[1], np.zeros(len(layers))
    # The component that needs most energy over the network is at the left of every bar.
    order = np.argsort(-energies.sum(axis=0), kind="stable")
    for place, number in enumerate(order):
        values = energies[:, number] / scale
        if values.any():
            colour = style.SERIES_COLOURS[place % len(style.SERIES_COLOURS)]
            left.barh(at, values, left=floor, height=0.78, color=colour, lw=0, label=components[number])
            floor = floor + values
    left.set_yticks(at, names)
    left.invert_yaxis()
    left.set_xlabel(style.quantity_label("energy", "J", energies.sum(axis=1)))
    style.grid_behind(left, "x")
    fig.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=6, handlelength=1.2)
    longest = times.max(keepdims=True)
    right.barh(at, times / style.prefix(longest, "s")[1], height=0.78, color=style.INK, alpha=0.55, lw=0)
    right.set_xlabel(style.quantity_label("time", "s", longest))
    style.grid_behind(right, "x")
    return fig


def _label(layer: dict[str, Any]) -> str:
    part = layer["layer"].replace("#", ".").rpartition(".")[2]
    return part if layer["count"] == 1 else f"{part}, {layer['count']} times"
