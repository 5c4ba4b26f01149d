"""Which version of jaxroof this is."""

VERSION = "0.1.0"
