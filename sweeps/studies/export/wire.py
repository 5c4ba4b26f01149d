"""Messages of Chakra execution traces in the wire format of protobuf.

A trace needs five kinds of fields of three messages, which is less code than a generated schema and one dependency
fewer. Tests read the files with the protobuf library and the published schema.

Source: protobuf.dev, Encoding; mlcommons/chakra, schema/protobuf/et_def.proto (GlobalMetadata, Node, AttributeProto),
version 0.0.4 as src/generator/generator.py writes it.
"""

from collections.abc import Iterable, Mapping

VERSION = "0.0.4"
"""Version of the schema."""

NODES = {"copy": 2, "kernel": 4, "host": 4, "send": 5, "receive": 6, "collective": 7}
"""Kind of run -> NodeType: MEM_LOAD, COMP, COMM_SEND, COMM_RECV, COMM_COLL."""

VALUES = {"int32": 7, "int64": 9, "uint64": 13, "bool": 27, "string": 29}
"""Kind of value -> its field of AttributeProto."""

Value = int | str
"""A value of an attribute."""

_VARINT, _BYTES = 0, 2  # wire types


def varint(number: int) -> bytes:
    """A whole number that is not negative: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 0x7F:
        # The highest bit says that more bytes follow.
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def framed(message: bytes) -> bytes:
    """A message after its length."""
    return varint(len(message)) + message


def number(field: int, value: int) -> bytes:
    """A field that is a whole number, not negative."""
    # A field's key is its number and its wire type in one varint.
    return varint(field << 3 | _VARINT) + varint(value)


def text(field: int, value: bytes) -> bytes:
    """A field that is text or another message."""
    return varint(field << 3 | _BYTES) + framed(value)


def attribute(field: int, name: str, kind: str, value: Value) -> bytes:
    """A field that is an AttributeProto.

    Args:
      kind: one of `VALUES`.
    """
    place = VALUES[kind]
    content = text(place, value.encode()) if isinstance(value, str) else number(place, value)
    return text(field, text(1, name.encode()) + content)


def metadata(about: Mapping[str, str]) -> bytes:
    """GlobalMetadata with texts about the trace."""
    return text(1, VERSION.encode()) + b"".join(attribute(2, name, "string", said) for name, said in about.items())


def node(identity: int, name: str, kind: str, after: Iterable[int], start: int, duration: int) -> bytes:
    """Node without attributes, which `attribute(10, ...)` adds behind it.

    Args:
      kind: one of `NODES`.
      after: identities of the nodes that it waits for.
      start, duration: whole microseconds.
    """
    # Field 5 of Node, data_deps, is a packed list of numbers.
    waits = b"".join(map(varint, after))
    return b"".join(
        (
            number(1, identity),
            text(2, name.encode()),
            number(3, NODES[kind]),
            text(5, waits) if waits else b"",
            number(6, start),
            number(7, duration),
        )
    )
