"""Fit of sequences in the memory of a deployment: bytes that are stored, and room that is left for KV cache."""

from jaxroof.chip.area import buildable, package_known, package_uses
from jaxroof.hardware import Hardware
from jaxroof.jobs.scenario import Metric, Scenario, higher, lower
from jaxroof.memory import capacity as memory
from jaxroof.memory.legality import legal
from jaxroof.memory.paging import mean_wasted_tokens, wasted_tokens
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import floor
from jaxroof.numerics.struct import Scalar

METRICS = {
    "weight_bytes": Metric("B", "weights stored per device"),
    "kv_capacity_tokens": higher("1", "tokens of KV cache that fit beside the weights"),
    "sequence_capacity": higher("1", "sequences of the workload's length whose KV cache fits"),
    "memory_use": lower("1", "share of the usable device memory that model and workload need"),
    "fits": Metric("1", "weights, activations and the workload's KV cache fit in device memory"),
    "legal": Metric("1", "the deployment's split is possible for this model on these links"),
    "feasible": Metric("1", "the deployment is legal and fits, on a device that could be built"),
    "buildable": Metric("1", "the device keeps every limit of its package"),
    **{
        f"{name}_use": lower("1", f"share of the limit that the device takes: {words}")
        for name, words in (
            ("shoreline", "die edge for the PHYs of memory and links"),
            ("interposer", "area of dies and memory stacks in the package"),
            ("reticle", "area of one die"),
            ("power_density", "TDP per area of the dies"),
            ("cooling", "TDP of one package"),
        )
    },
    "kv_blocks_left": higher("1", "blocks of KV cache that fit beside the weights"),
    "cache_waste": lower("1", "share of a sequence's blocks of KV cache that is empty"),
    "cache_waste_mean": lower("1", "tokens of room that a sequence of any length leaves empty, on average"),
}
"""What is stored, what is left, and whether the workload fits."""


def fit(scenario: Scenario, context: Scalar, sequences: Scalar, encoded: Scalar) -> dict[str, Scalar]:
    """Memory metrics: what is stored, what is left for KV cache, whether `sequences` of `context` tokens fit."""
    place = scenario.hardware, scenario.model, scenario.deployment
    capacity = memory.sequence_capacity(*place, context, encoded)
    # Two conditions: weights leave some room, and the room holds the workload's sequences.
    fits = memory.weights_fit(*place) & (capacity >= sequences)
    split, paged = legal(*place), {}
    if scenario.deployment.block_tokens is not None:
        block = scenario.deployment.block_tokens
        # Internal fragmentation of paged caches.
        waste = wasted_tokens(context, block)
        paged = {
            "kv_blocks_left": floor(memory.kv_capacity_tokens(*place) / block),
            "cache_waste": waste / (context + waste),
            "cache_waste_mean": jnp.asarray(mean_wasted_tokens(block)),
        }
    return {
        "weight_bytes": memory.weight_bytes(scenario.model, scenario.deployment),
        "kv_capacity_tokens": memory.kv_capacity_tokens(*place),
        "sequence_capacity": capacity,
        "memory_use": memory.memory_use(*place, context, sequences, encoded),
        "fits": fits,
        "legal": split,
        **paged,
        **_built(scenario.hardware, fits & split),
    }


def _built(hardware: Hardware, feasible: Scalar) -> dict[str, Scalar]:
    """Whether a deployment that can be is on a device that can be built, and how much of each limit that takes."""
    if not package_known(hardware):
        return {"feasible": feasible}
    uses = package_uses(hardware)
    built = buildable(uses)
    return {"feasible": feasible & built, "buildable": built} | {f"{name}_use": use for name, use in uses.items()}
