"""One model to run: its architecture, its precision, and the source of both."""

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from hwspaces.files import document
from jaxroof.model import Model
from workloads.config import Config, WrongKey
from workloads.models import huggingface
from workloads.models.catalogue import CatalogueModel, found
from workloads.models.coverage import language_model
from workloads.models.encoders import VISION, vision_encoder
from workloads.models.hub import fetched, is_repository
from workloads.models.images import ImageTokens
from workloads.models.unread import unknown_keys, unread_notes
from workloads.precisions.precision import precision
from workloads.precisions.quantization import FILES

LARGEST_FILE = 16 * 2**20
"""B of a config; one that quantises every module in its own way, of 100,000 modules, has 10 MB."""

AS = re.compile(r"(.*\S)\s+as\s+([\w.-]+)", re.DOTALL)
"""A model and the model_type that it is to be read as."""

MOST_ENTRIES = 10**6
"""Values and keys of a config."""


Beside = tuple[str, Config] | None
"""Name and content of a file beside a config that says how weights are stored, if there is one."""


@dataclasses.dataclass(frozen=True)
class ModelEntry:
    """A model read from the catalogue or from a config file."""

    name: str
    aliases: tuple[str, ...]
    architecture: str  # model_type
    source: str  # where its figures are from
    model: Model
    precision: str  # label of the weights' format, such as "bf16" or "fp8 (block 128x128)"
    precision_source: str  # quantization_config, hf_quant_config.json, a naming convention, torch_dtype or weights
    kv_precision: str | None  # of cached keys and values, where the checkpoint says
    notes: tuple[str, ...]  # what the reader wants said aloud
    max_position: int | None  # tokens
    published_parameters: float | None  # as its publisher counts them: without a vision encoder or prediction head
    encoder_positions: int | None = None  # tokens of its encoder at most, where it says: Whisper's 1500 of 30 s
    images: ImageTokens | None = None  # how it turns images into tokens, for `encoder_tokens`; None: it sees none


def model(name_or_path: str, weights: str | None = None) -> ModelEntry:
    """A model by its catalogue name or alias, or read from a Hugging Face `config.json` or the folder that has it.

    A file or folder of that name wins over the catalogue. Names are matched without regard to case, `-`, `_`, `.`
    and the owner before a slash; one that ends in a precision (`-FP8`, `-AWQ`) and is not in the catalogue itself
    is its model at that precision. A repository of the Hugging Face Hub that is not in the catalogue (OWNER/NAME) is
    fetched from there, its config alone.

    Args:
      name_or_path: a name, an alias, or a path; "config.json as qwen3_moe" reads what is there as that model_type.
      weights: a precision in place of the checkpoint's own: fp8, int8, w8a16, w4a16, w4a8 (fp8
        activations), nvfp4, mxfp4, mxfp8, nf4, bf16, fp16, tf32 or fp32; mlx-4bit and its like; or a type of GGUF file
        such as q4_k_m.

    Returns:
      The entry; every number of its model is a float.

    Raises:
      ValueError: in one line, an unknown name with near ones; a file that is missing or not JSON; an architecture
        that is not covered, with what is missing; a key that is missing or wrong; an unknown precision.
    """
    if not isinstance(name_or_path, str | pathlib.PurePath) or not str(name_or_path):
        raise ValueError(f"a model is given by its name or path, not by {name_or_path!r}")
    name, read_as = _named(str(name_or_path))
    # A path wins over the catalogue, so that a user's own file is never shadowed by a name.
    path = config_path(name)
    if path is not None:
        return _from_file(path, weights, read_as)
    try:
        found(name)
    except ValueError as unknown:
        # Only names that the catalogue does not know are asked of the Hub.
        if not is_repository(name):
            raise
        return _from_file(fetched(name, str(unknown)), weights, read_as, name)
    return _from_catalogue(name, weights, read_as)


def _named(text: str) -> tuple[str, str | None]:
    """The name or path in `text`, and the model_type that it is to be read as."""
    match = AS.fullmatch(text)
    return (text, None) if match is None else (match[1], match[2])


def config_path(text: str) -> pathlib.Path | None:
    """The config file that `text` names, or None if it is the name of a model."""
    try:
        # `exists` raises for names that no file can have.
        path = pathlib.Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError) as error:  # a name longer than names are, a folder that may not be looked into
        raise ValueError(f"{text[:60]!r} is not a path: {getattr(error, 'strerror', None) or error}") from None
    if path.is_dir() and (path / "config.json").is_file():
        return path / "config.json"
    if path.is_file():
        return path
    if path.suffix in (".json", ".toml") or text.startswith((".", "/", "~")):
        where = f"{path} has no config.json" if path.is_dir() else f"{path}: no such file or folder"
        raise ValueError(where)
    return None


def _from_file(
    path: pathlib.Path, weights: str | None, read_as: str | None, repository: str | None = None
) -> ModelEntry:
    """The model of a config file, of the Hub's `repository` where it was fetched from there."""
    if path.suffix.lower() == ".gguf":
        hint = 'give the config of its model, and weights="q4_k_m"'
        raise ValueError(f"{path} is a GGUF file, which is not read: {hint}")
    if path.suffix.lower() == ".toml":
        return _from_toml(path, weights, read_as)
    plain = path.name == "config.json"
    name = path.resolve().parent.name if plain else path.stem.removesuffix("_config")
    name = name if repository is None else repository.rpartition("/")[2]
    beside: Beside = None
    # Quantisers write their scheme into files of their own beside config.json.
    for file in FILES:
        quant_path = path.with_name(file if plain else f"{name}_{file}")
        if os.path.lexists(quant_path):
            beside = file, Config(str(quant_path), _json(quant_path))
            break
    values = _json(path)
    where = str(path) if repository is None else f"{repository} on the Hub, {path.parent.name[:12]}"
    source = CatalogueModel(name=repository or name, aliases=(), source=where, date="", config=values, hf_quant=None)
    notes = () if repository is None else (f"{repository} is not in the catalogue: its config.json is the Hub's",)
    return _entry(source, Config(repository or str(path), values), beside, name, weights, notes, read_as)


def _from_toml(path: pathlib.Path, weights: str | None, read_as: str | None) -> ModelEntry:
    """The model that a user describes in keys of a config: each of them has to be one that is read."""
    values = document.toml(path)
    name = values.get("name", path.stem)
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"{path}: name = {name!r} must be a text")
    source = CatalogueModel(name=name, aliases=(), source=str(path), date="", config=values, hf_quant=None)
    return _entry(source, Config(str(path), values), None, None, weights, (), read_as, strict=True)


@functools.cache
def _from_catalogue(name: str, weights: str | None, read_as: str | None) -> ModelEntry:
    entry, convention, notes = found(name)
    beside: Beside = None
    if entry.hf_quant is not None:
        beside = "hf_quant_config.json", Config(f"{entry.name}: hf_quant_config.json", entry.hf_quant)
    config = entry.config
    if convention is not None:
        # A repository that requantises a model replaces what the original says of its own weights.
        config, beside = {k: v for k, v in config.items() if k != "quantization_config"}, None
    return _entry(entry, Config(entry.name, config), beside, convention, weights, notes, read_as)


def _entry(
    source: CatalogueModel,
    config: Config,
    beside: Beside,
    convention: str | None,
    weights: str | None,
    notes: tuple[str, ...],
    read_as: str | None,
    strict: bool = False,
) -> ModelEntry:
    """The model of a config, or everything that is wrong with its keys.

    Args:
      source: what the entry says of itself.
      config: the whole.
      beside: a file that says how weights are stored.
      convention: name to look for a naming convention in.
      weights: as in `model`.
      notes: to begin with.
      read_as: a model_type in place of its own.
      strict: a key that nothing reads is wrong too.
    """
    found: list[ValueError] = []
    tried, read = config, None
    # A key that is wrong by itself is given a stand-in, so that reading goes on to the next one.
    while read is None:
        try:
            read = _read(source, tried, beside, convention, weights, notes, read_as)
        except WrongKey as error:
            found.append(error)
            if tried.has(error.path) and tried.mended(error).values == tried.values:
                break
            tried = tried.mended(error)
        except ValueError:
            # What does not go together may be due to a stand-in.
            if not found:
                raise
            break
    unknown = unknown_keys(config, strict and read is not None) if strict or found else []
    if not found and not unknown and read is not None:
        return read
    if len(found) == 1 and not unknown:
        raise found[0]
    raise document.Problems(config.name, [*(str(e).removeprefix(f"{config.name}: ") for e in found), *unknown])


def _read(
    source: CatalogueModel,
    config: Config,
    beside: Beside,
    convention: str | None,
    weights: str | None,
    notes: tuple[str, ...],
    read_as: str | None,
) -> ModelEntry:
    reading = language_model(config, read_as)
    family = reading.family
    file, table = beside or ("", None)
    # In this order: an asked precision, the config's own table, a file beside it, the repository's name.
    stored = precision(config, None if table is None else FILES[file](table), file, convention, weights)
    # A family that sees, in a config without its tower: text alone is priced.
    unseeing = family.encoder in VISION and config.table("vision_config") is None
    own = (
        *notes,
        *reading.notes,
        *([family.note] if family.note else []),
        *(["language model only: the config has no vision_config"] if unseeing else []),
        *source.notes,
        *stored.notes,
    )
    if stored.source.endswith("(naming convention)"):
        own = (*own, f"precision {stored.label}: {stored.source}")
    model = huggingface.model(reading, stored.quantised, stored.base)
    longest, images = huggingface.max_position(reading.text), vision_encoder(reading)
    positions = config.count("max_source_positions", default=None)
    return ModelEntry(
        name=source.name,
        aliases=source.aliases,
        architecture=str(config.value("model_type")),
        source=source.source,
        model=model,
        precision=stored.label,
        precision_source=stored.source,
        kv_precision=stored.quantised.kv_precision,
        notes=(*own, *unread_notes(config)),
        max_position=longest,
        published_parameters=None if source.parameters is None else float(source.parameters),
        encoder_positions=positions,
        images=None if images is None else images.images,
    )


def _json(path: pathlib.Path) -> Mapping[str, Any]:
    values = document.json_value(path, LARGEST_FILE, MOST_ENTRIES)
    if not isinstance(values, dict):
        raise ValueError(f"{path} must hold a JSON object, not {type(values).__name__}")
    return values
