"""Hardware: the catalogue of accelerators, a user's own devices, and their units."""

from jaxroof.public import public_names

__all__, __getattr__, __dir__ = public_names(__name__, __file__ + "i")
