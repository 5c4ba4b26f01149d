"""Version of jaxroof."""

VERSION = "0.1.0"
