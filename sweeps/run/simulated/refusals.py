"""Refusals of what cannot be simulated: models and deployments without a price, and requests without room."""

from hwspaces.quantities.units import formatted
from jaxroof.deployment import Deployment, drafted_tokens, replica_devices
from jaxroof.hardware import Hardware
from jaxroof.memory.capacity import kv_capacity_tokens, weight_bytes
from jaxroof.model import Model
from jaxroof.prices.tables import MOST_DRAFTED


def require_priced(name: str, model: Model, deployment: Deployment) -> None:
    """ValueError, one line, for what the scheduler does not price of the model of that name."""
    if not model.generates:
        raise ValueError(f"{name} is an encoder and generates nothing: `jaxroof request` times its batches")
    if any(block.cross is not None for block in model.blocks):
        raise ValueError(f"{name} attends to an encoder's output, which the scheduler does not price")
    if deployment.cp is not None:
        raise ValueError(f"deployment.cp = {deployment.cp:g}: the scheduler does not price it; leave it out")
    if drafted_tokens(deployment) > MOST_DRAFTED:
        raise ValueError(
            f"deployment.drafts = {deployment.drafts:g}: the scheduler prices at most {MOST_DRAFTED} drafted tokens "
            "per sequence and step"
        )


def require_room(
    name: str, device: str, hardware: Hardware, model: Model, deployment: Deployment, tokens: float
) -> None:
    """ValueError, one line, where the KV cache of an attention group cannot hold a sequence of `tokens` tokens.

    A scheduler refuses such requests one by one, so that nothing is answered and latencies have no value.

    Args:
      name, device: of model and hardware, for the message.
    """
    room = float(kv_capacity_tokens(hardware, model, deployment))
    if room < 1.0:
        raise ValueError(no_cache(name, device, hardware, model, deployment))
    if room < tokens:
        raise ValueError(
            f"{name} on {float(replica_devices(deployment)):g} x {device}: the KV cache of {room:.0f} tokens beside "
            f"the weights does not hold one sequence of {tokens:g} tokens"
        )


def no_cache(name: str, device: str, hardware: Hardware, model: Model, deployment: Deployment) -> str:
    """The sentence for a deployment whose weights leave no KV cache."""
    weights = formatted(float(weight_bytes(model, deployment)), "B")
    return (
        f"{name} does not fit on {float(replica_devices(deployment)):g} x {device}: weights of {weights} per device "
        f"leave no KV cache in {formatted(float(hardware.memory.hbm.capacity), 'B')}"
    )
