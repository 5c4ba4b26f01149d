"""Catalogue of models: the TOML files in `models/`, their aliases, and how a name is matched."""

import dataclasses
import difflib
import functools
import importlib.resources
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from workloads.precisions.precision import name_convention


@dataclasses.dataclass(frozen=True)
class CatalogueModel:
    """One named model or one requantised repository of it, as its publisher's config describes it. Not read yet."""

    name: str
    aliases: tuple[str, ...]
    source: str  # repository id or publication that the figures are from
    date: str  # when they were looked up
    config: Mapping[str, Any]  # keys of a Hugging Face config
    hf_quant: Mapping[str, Any] | None  # content of hf_quant_config.json
    requantised: bool = False  # someone's requantised repository of a model that the catalogue has too
    notes: tuple[str, ...] = ()
    parameters: float | None = None  # as published: without a vision encoder or prediction head


def names() -> tuple[str, ...]:
    """Every name in the catalogue, sorted, without aliases. A name may still be refused as not covered."""
    return tuple(sorted(catalogue(), key=str.casefold))


def catalogue() -> Mapping[str, CatalogueModel]:
    """Every catalogue model by name. Raises `ValueError` for a file with a missing or unknown field."""
    return _models(tuple(_texts()))


def found(name: str) -> tuple[CatalogueModel, str | None, tuple[str, ...]]:
    """(the model that `name` means, the name to take a precision from or None, notes to say aloud).

    Raises `ValueError` for an unknown name, with the nearest known ones.
    """
    owner, _, repository = name.rpartition("/")
    base, _, ending = name_convention(repository)
    # The name itself first, then without its ending of precision: a repository of a quantised checkpoint.
    for candidate, convention in ((repository, None), (base, repository)) if ending else ((repository, None),):
        files = _files_with(candidate)
        # With its owner first, as two publishers may have the same name.
        for spelled in (f"{owner}/{candidate}", candidate):
            known = _index(files).get(matched(spelled)) or _loose_index(files).get(collapsed(spelled))
            if known:
                entry = _models(files)[known]
                foreign = owner and matched(owner) not in _owners(entry)
                if foreign and entry.requantised:
                    continue  # two publishers quantise one model differently under the same name
                notes = (f"{name} is not in the catalogue: read as {entry.name}",) if foreign or convention else ()
                return entry, convention, notes
    # No match: the nearest spellings help more than a list of hundreds.
    spellings = {matched(spelled): spelled for spelled in catalogue()}
    near = difflib.get_close_matches(matched(repository), spellings, n=3, cutoff=0.6)
    hint = f"; near are {', '.join(spellings[key] for key in near)}" if near else ""
    raise ValueError(f"{name}: no model of this name in the catalogue, and no such file{hint}")


def matched(name: str) -> str:
    """A name as it is compared: without case and separators, but for those between two digits (1.3B is not 13B)."""
    # A dot between digits is part of the number, elsewhere it is a separator.
    return re.sub(r"[-_./ ]", "", re.sub(r"(?<=\d)[-_.](?=\d)", "·", name.casefold()))


def collapsed(name: str) -> str:
    """A name without any separator, for spellings such as `qwen25-7b`."""
    return matched(name).replace("·", "")


@functools.cache
def _texts() -> Mapping[str, str]:
    """Text of every file of the catalogue."""
    folder = importlib.resources.files("workloads") / "models"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".toml")), key=lambda file: file.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files}


@functools.cache
def _collapsed_texts() -> Mapping[str, str]:
    return {file: text.casefold().translate(_SEPARATORS) for file, text in _texts().items()}


_SEPARATORS = str.maketrans("", "", "-_./ ·")


@functools.lru_cache(maxsize=1024)
def _files_with(name: str) -> tuple[str, ...]:
    """Files in whose text a name is: parsing takes far longer than searching, and no other file can have it."""
    # A search in the text picks the file to parse; TOML parsing is what takes time.
    return tuple(file for file, text in _collapsed_texts().items() if collapsed(name) in text)


@functools.cache
def _models(files: tuple[str, ...]) -> Mapping[str, CatalogueModel]:
    """Models of some files by name."""
    models: dict[str, CatalogueModel] = {}
    for file in files:
        for known in _models_in(file):
            if known.name in models:
                raise ValueError(f"{file}: {known.name} is there twice")
            models[known.name] = known
    return models


@functools.cache
def _models_in(file: str) -> tuple[CatalogueModel, ...]:
    return tuple(known for entry in tomllib.loads(_texts()[file])["model"] for known in _variants(entry, file))


@functools.cache
def _index(files: tuple[str, ...]) -> Mapping[str, str]:
    """Canonical names by matched spelling, with and without owner. Raises `ValueError` when two models share one."""
    index: dict[str, str] = {}
    for entry in _models(files).values():
        for alias in (entry.name, *entry.aliases):
            for key in {matched(alias), matched(alias.rpartition("/")[2])}:
                if index.setdefault(key, entry.name) != entry.name:
                    # Aliases must be unambiguous, or a name would mean different models by the order of files.
                    raise ValueError(f"alias {alias} means both {index[key]} and {entry.name}")
    return index


@functools.cache
def _loose_index(files: tuple[str, ...]) -> Mapping[str, str]:
    """Canonical names by collapsed spelling, where it means only one model."""
    meanings: dict[str, set[str]] = {}
    for key, name in _index(files).items():
        meanings.setdefault(key.replace("·", ""), set()).add(name)
    return {key: meant.pop() for key, meant in meanings.items() if len(meant) == 1}


def _owners(entry: CatalogueModel) -> set[str]:
    return {matched(alias.rpartition("/")[0]) for alias in entry.aliases if "/" in alias}


def _variants(entry: Mapping[str, Any], file: str) -> list[CatalogueModel]:
    """A model and its requantised repositories, which differ from it in their quantisation."""
    allowed = {"name", "aliases", "source", "date", "parameters", "notes", "config", "nulls", "variant"}
    missing = {"name", "source", "date", "config"} - entry.keys()
    if missing or entry.keys() - allowed:
        wrong = [*(f"{k} is missing" for k in missing), *(f"{k} is unknown" for k in entry.keys() - allowed)]
        raise ValueError(f"{file}: {entry.get('name', 'a model')}: {', '.join(sorted(wrong))}")
    # TOML has no null, which in some configs (sliding_window) says something else than a missing key.
    stated = {**entry["config"], **dict.fromkeys(entry.get("nulls", ()))}
    variants = []
    for own in (entry, *entry.get("variant", ())):
        config = stated
        # A variant inherits everything but how weights are stored.
        if own is not entry:
            config = {k: v for k, v in stated.items() if k != "quantization_config"}
            config |= {k: own[k] for k in ("quantization_config",) if k in own} | own.get("config", {})
        variants.append(
            CatalogueModel(
                name=own["name"],
                aliases=tuple(own.get("aliases", ())),
                source=own.get("source", entry["source"]),
                date=str(own.get("date", entry["date"])),
                config=config,
                hf_quant=own.get("hf_quant_config"),
                requantised=own is not entry,
                notes=tuple(entry.get("notes", ())),
                parameters=entry.get("parameters"),
            )
        )
    return variants
