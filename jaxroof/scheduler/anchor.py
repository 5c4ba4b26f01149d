"""Gradients of a simulation's times: the end of a step is tied to the arrival that waited for it.

Step by step, an engine that is a little faster ends every step a little earlier, and the n-th step of a day much
earlier. But a request that comes to an engine between two steps waits for a share of a step, however fast steps are: a
faster engine has made more steps by then. The number of steps is whole and has no gradient, so a time that is taken
for the end of the n-th step moves by what the whole day's steps have gained, and differences of such times are useless
as gradients. So where a request did not wait for anything but the end of a step, that end is tied to its arrival; the
steps that were gained are kept, and end sequences earlier.
"""

from jaxroof.arrays import jax
from jaxroof.arrays import jax_numpy as jnp
from jaxroof.scheduler.state import Clock, State, since
from jaxroof.struct import Array


def slope_of(value: Array) -> Array:
    """0, with the gradient of `value`."""
    return value - jax.lax.stop_gradient(value)


def tied(state: State, arrival: Clock, enters: Array) -> State:
    """The state with its clock tied to the arrival of a request that enters. No value changes.

    The end of the last step is the arrival and a share r of that step; `State.ahead` gains the steps that fit into what
    the clock has lost.

    Args:
      arrival: of the request; anything finite where none enters.
      enters: bool: whether one does, and is the first at this instant.
    """
    waited = since(state.clock, arrival)
    enters = enters & (waited >= 0.0) & (waited <= state.pace) & (state.pace > 0.0)
    pace = jnp.where(enters, state.pace, 1.0)
    waited = jnp.where(enters, waited, 0.0)
    share = jax.lax.stop_gradient(waited / pace)
    moved = slope_of(share * pace - waited)
    moved = jnp.where(enters, moved, 0.0)
    return state._replace(
        clock=Clock(state.clock.high + moved, state.clock.low),
        ahead=state.ahead + moved / jax.lax.stop_gradient(pace),
    )
