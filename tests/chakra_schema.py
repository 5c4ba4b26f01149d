"""The messages of Chakra's execution traces that jaxroof writes, for the protobuf library.

Numbers of fields are facts of mlcommons/chakra, schema/protobuf/et_def.proto; fields that are never written are left
out, which protobuf keeps as unknown ones.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SCALARS = {"string": 9, "uint64": 4, "int64": 3, "int32": 5, "bool": 8, "enum": 14, "double": 1}
"""Type of a field -> FieldDescriptorProto.Type."""

ENUMS = {
    "NodeType": {
        **{"INVALID_NODE": 0, "METADATA_NODE": 1, "MEM_LOAD_NODE": 2, "MEM_STORE_NODE": 3, "COMP_NODE": 4},
        **{"COMM_SEND_NODE": 5, "COMM_RECV_NODE": 6, "COMM_COLL_NODE": 7},
    },
    "CollectiveCommType": {
        **{"ALL_REDUCE": 0, "REDUCE": 1, "ALL_GATHER": 2, "GATHER": 3, "SCATTER": 4, "BROADCAST": 5},
        **{"ALL_TO_ALL": 6, "REDUCE_SCATTER": 7, "REDUCE_SCATTER_BLOCK": 8, "BARRIER": 9},
    },
}

MESSAGES = {
    "BoolList": {"values": (1, "bool", True)},
    "AttributeProto": {
        **{"name": (1, "string", False), "doc_string": (2, "string", False), "double_val": (3, "double", False)},
        **{"int32_val": (7, "int32", False), "int64_val": (9, "int64", False), "uint64_val": (13, "uint64", False)},
        **{"bool_val": (27, "bool", False), "bool_list": (28, "BoolList", False), "string_val": (29, "string", False)},
    },
    "GlobalMetadata": {"version": (1, "string", False), "attr": (2, "AttributeProto", True)},
    "Node": {
        **{"id": (1, "uint64", False), "name": (2, "string", False), "type": (3, "NodeType", False)},
        **{"ctrl_deps": (4, "uint64", True), "data_deps": (5, "uint64", True)},
        **{"start_time_micros": (6, "uint64", False), "duration_micros": (7, "uint64", False)},
        "attr": (10, "AttributeProto", True),
    },
}
"""Message -> field -> its number, its type, and whether it is repeated."""


def messages() -> dict[str, type]:
    """Classes of the messages by name."""
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        for word, number in values.items():
            enum.value.add(name=word, number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for word, (number, kind, repeated) in fields.items():
            field = message.field.add(name=word, number=number, label=3 if repeated else 1)
            if kind in SCALARS:
                field.type = SCALARS[kind]
            else:
                field.type = SCALARS["enum"] if kind in ENUMS else 11
                field.type_name = f".ChakraProtoMsg.{kind}"
            if name == "AttributeProto" and word not in ("name", "doc_string"):
                field.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}")) for name in MESSAGES
    }


def read(path) -> tuple[object, list]:
    """GlobalMetadata and nodes of a trace, each message after its length as a varint."""
    classes, data, place, found = messages(), path.read_bytes(), 0, []
    while place < len(data):
        length = shift = 0
        while True:
            byte = data[place]
            place += 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        message = classes["Node" if found else "GlobalMetadata"]()
        assert message.ParseFromString(data[place : place + length]) == length
        assert not list(unknown_fields(message))
        place += length
        found.append(message)
    return found[0], found[1:]


def unknown_fields(message):
    """Fields that the schema does not have, of a message and those inside."""
    from google.protobuf import unknown_fields as unknown

    yield from unknown.UnknownFieldSet(message)
    for _, value in message.ListFields():
        for inner in value if hasattr(value, "__len__") and not isinstance(value, str | bytes) else [value]:
            if hasattr(inner, "ListFields"):
                yield from unknown_fields(inner)
