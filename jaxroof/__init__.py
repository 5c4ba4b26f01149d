"""Time, memory and cost of LLM inference on any hardware, as pure JAX functions of pytrees."""

from jaxroof.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__, __file__ + "i")
