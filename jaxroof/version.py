"""Version of jaxroof."""

VERSION = "0.1.0"
"""By semantic versioning."""
