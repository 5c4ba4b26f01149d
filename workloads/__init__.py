"""Workloads: model architectures by name or from a Hugging Face config, and request streams."""

from jaxroof.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__, __file__ + "i")
