"""Launch words of an engine: version, images, command and names of precisions, beside flags in `sweeps.serving`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from hwspaces.quantities.units import nearest


@dataclasses.dataclass(frozen=True, kw_only=True)
class LaunchWords:
    """What a launch of one engine says that is no number of the deployment, as of one version."""

    version: str  # whose flags are written
    source: str  # files that declare the flags
    command: tuple[str, ...]  # what starts it
    model: tuple[str, ...] = ()  # words before the model
    settings: str | None = None  # name of the file of settings that have no flag
    images: Mapping[str, str] = dataclasses.field(default_factory=dict)  # vendor -> container image of this version
    cache: Mapping[str, str] = dataclasses.field(default_factory=dict)  # precision of the KV cache -> its name
    # precision -> the method that makes such weights of a 16-bit checkpoint when it is loaded
    quantization: Mapping[str, str] = dataclasses.field(default_factory=dict)
    plugins: Mapping[str, str] = dataclasses.field(default_factory=dict)  # vendor -> package that runs it there
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)  # vendor -> why it does not run there
    said: frozenset[str] = frozenset()  # fields of the policy that its flags say
    dynamo_version: str = ""  # the version that NVIDIA Dynamo's package asks for
    dynamo_module: str = ""  # Dynamo's worker
    dynamo_image: str = ""
    dynamo_model: str = "--model"  # Dynamo's flag that names the model


_LISTS = ("command", "model", "said")
_TABLES = ("images", "cache", "quantization", "plugins", "refused")
_NEEDED = ("version", "source", "command", "said", "dynamo_version", "dynamo_module", "dynamo_image")


def launch_words(table: Mapping[str, Any], where: str) -> LaunchWords:
    """The `[launch]` table of an engine's file.

    Raises:
      ValueError: one line that names the file, the key, its value and what is allowed.
    """
    known = [field.name for field in dataclasses.fields(LaunchWords)]
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"{where}: there is no key {key}{nearest(key, known)}")
        # Lists and tables hold texts alone; everything else is one text.
        kind, what = (list, "a list of texts") if key in _LISTS else (str, "a text")
        if key in _TABLES:
            kind, what = dict, "a table of texts"
        parts = value.values() if isinstance(value, dict) else value
        if not isinstance(value, kind) or not all(isinstance(part, str) for part in parts):
            raise ValueError(f"{where}.{key} = {value!r} must be {what}")
    for key in _NEEDED:
        if key not in table:
            raise ValueError(f"{where}: {key} is missing")
    lists = {key: tuple(table[key]) for key in ("command", "model") if key in table}
    return LaunchWords(**(dict(table) | lists | {"said": frozenset(table["said"])}))
