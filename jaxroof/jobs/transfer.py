"""Transfer of a request's KV cache from the pool that prefills to the pool that decodes: bytes, time, exposed time."""

import dataclasses

from jaxroof.deployment import Deployment, replica_devices
from jaxroof.jobs.scenario import Pool
from jaxroof.layers.collective import collective
from jaxroof.memory import kv_bytes_of_sequence
from jaxroof.model import Model
from jaxroof.op_time import op_time
from jaxroof.smooth import maximum, minimum, positive_part
from jaxroof.struct import Array, Scalar


def transfer_bytes(model: Model, deployment: Deployment, tokens: Scalar) -> Scalar:
    """B of cache and states of one sequence of `tokens` tokens, shape (): of all layers and heads, each once."""
    return kv_bytes_of_sequence(model, _whole(deployment), tokens)


def _whole(deployment: Deployment) -> Deployment:
    """One device with everything, at the precisions of `deployment`."""
    return dataclasses.replace(
        deployment, tp=1.0, pp=None, cp=None, attention_dp=None, ep=None, stages=None, block_tokens=None
    )


def transfer_time(prefill: Pool, decode: Pool, model: Model, isl: Scalar, lanes: Scalar | None = None) -> Array:
    """Time in s that one request's cache is on its way, shape (), over the slower of the two pools' links.

    `lanes` devices send an even share each: as a send-receive beyond the scale-up domain where the hardware has
    a scale-out tier, else inside it. Heads that tensor parallelism keeps twice are sent once.

    Args:
      isl: tokens whose cache is sent.
      lanes: links that carry it at once; None: one per device of the smaller replica.

    Raises:
      ValueError: while tracing, where a pool's hardware has no links.
    """
    if lanes is None:
        lanes = minimum(replica_devices(prefill.deployment), replica_devices(decode.deployment))
    part = transfer_bytes(model, decode.deployment, isl) / lanes
    return maximum(*(lane_time(pool, part) for pool in (prefill, decode)))


def lane_time(pool: Pool, message: Scalar) -> Array:
    """Time in s to send `message` B from one device of a pool out of it, shape ()."""
    links = pool.hardware.links
    if links.scale_up is None and links.scale_out is None:
        raise ValueError("the hardware has no links to hand a cache over; give links.scale_out")
    inside = links.scale_up is None or links.scale_out is None
    stride = None if inside else links.scale_up.devices
    return op_time(collective("send_recv", message, 2.0, 1.0, stride), pool.hardware, pool.efficiency)


def exposed_time(transfer: Scalar, prefill: Scalar, layers: Scalar, layerwise: Scalar) -> Scalar:
    """Time in s between a prompt's computation and the arrival of its cache, shape ().

    Layer by layer, the last layer's part of the transfer is left, and of the others' what the prompt's own time does
    not hide; otherwise all of it.

    Args:
      transfer: s of all layers.
      prefill: s of the prompt's computation.
      layerwise: 1 or 0.

    Source: Patel et al., arXiv:2311.18677 (Splitwise), section 4.2.
    """
    others = 1.0 - 1.0 / layers
    overlapped = transfer / layers + others * positive_part(transfer - prefill)
    return layerwise * overlapped + (1.0 - layerwise) * transfer
