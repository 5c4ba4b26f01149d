"""Constants of kernels that differ by class of cores: engines run other kernels on Hopper than on Blackwell."""

import dataclasses
from typing import TypeVar

from jaxroof.hardware import Cores
from jaxroof.struct import Scalar

Kernel = TypeVar("Kernel")

Constants = dict[str, Scalar]
"""Constants of a kernel by the name of their field."""


def on_cores(kernel: Kernel, asynchronous: Constants | None, tensor_memory: Constants | None, cores: Cores) -> Kernel:
    """`kernel` with the constants that it has on `cores`, linear in the two switches that tell their class.

    value = general + a (1 - t) (own of asynchronous - general) + a t (own of tensor_memory - general)

    Cores that a compiler schedules run none of these kernels: a is 0 there.

    Args:
      kernel: a struct of general constants.
      asynchronous: constants in their place where matrix units fetch operands by themselves and threads hold the
        accumulators; None: none.
      tensor_memory: the same where accumulators have a memory of their own as well; None: none.
      cores: a is their `asynchronous` where they are not `compiled`, t their `tensor_memory`.

    Returns:
      A struct of the same type; `kernel` itself where both are None.
    """
    changed: Constants = {}
    ahead = cores.asynchronous * (1.0 - cores.compiled)
    held = ahead * cores.tensor_memory
    for share, own in ((ahead - held, asynchronous), (held, tensor_memory)):
        for name, value in (own or {}).items():
            general = getattr(kernel, name)
            changed[name] = changed.get(name, general) + share * (value - general)
    return dataclasses.replace(kernel, **changed) if changed else kernel  # type: ignore[type-var]
