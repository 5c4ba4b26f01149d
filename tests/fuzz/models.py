"""Loaders of models: a Hugging Face config.json, and the hf_quant_config.json beside one."""

import functools
import json
from typing import Any

from tests.fuzz.documents import Toml
from tests.fuzz.sensible import require_sensible
from tests.fuzz.target import Target, in_file
from tests.workloads.test_quantization_formats import LLAMA, METHODS, W8A8

LARGEST_SIZE = 1e30
"""Above every product of sizes that single sizes of at most 10^12 leave possible."""


def targets() -> list[Target]:
    """What reads models."""
    plain = json.dumps(next(config for config in configs() if config.get("model_type") == "llama")).encode()
    words = tuple(sorted({key for config in configs() for key in config}))
    quant_words = tuple(sorted({key for found in quantisations() for key in found} | _nested_words()))
    return [
        Target("model", in_file("config.json", _model), lambda: _seeds([*configs(), *made()]), words=words),
        Target("model_toml", in_file("own.toml", _model), templates, Toml, words),
        Target(
            "quantisation",
            in_file("hf_quant_config.json", lambda path: _model(path.replace("hf_quant_", "")), {"config.json": plain}),
            lambda: _seeds(quantisations()),
            words=quant_words,
        ),
    ]


def _model(path: str) -> None:
    import jax

    import workloads

    entry = workloads.model(path)
    for leaf in jax.tree.leaves(entry.model):
        if not isinstance(leaf, str | bool):
            require_sensible(float(leaf), beyond=LARGEST_SIZE)
    require_sensible(entry.max_position, 1.0, 1e12)


@functools.cache
def configs() -> list[dict[str, Any]]:
    """One config of every model_type of the catalogue, of few layers where they are not listed."""
    from workloads.models.catalogue import catalogue

    found: dict[str, dict[str, Any]] = {}
    for model in catalogue().values():
        config = dict(model.config)
        quantised = config.get("quantization_config", {}).get("quant_method", "")
        for key in ("num_hidden_layers", "n_layer", "num_layers", "n_layers"):
            listed = any(
                (isinstance(value, list | str) and len(value) > 8) or "linear_attn" in name
                for name, value in config.items()
                if name not in ("model_type", "architectures")
            )
            if isinstance(config.get(key), int) and not listed and "attn_layer_indices" not in config:
                config[key] = min(config[key], 8)
        found.setdefault(f"{config.get('model_type')} {quantised}", config)
    return list(found.values())


def templates() -> list[bytes]:
    """Models as a user writes them."""
    from workloads.models.template import TEMPLATES

    return [text.encode() for text in TEMPLATES.values()]


def made() -> list[dict[str, Any]]:
    """A small config under every quantisation method."""
    mlx = {"group_size": 64, "bits": 4, "model.layers.0.mlp.down_proj": {"bits": 8, "group_size": 64}, "lm_head": False}
    methods = [{"quantization_config": quantisation} for quantisation, _, _ in METHODS]
    return [{**LLAMA, **keys} for keys in (*methods, {"quantization": mlx}, {"compression_config": W8A8})]


@functools.cache
def quantisations() -> list[dict[str, Any]]:
    """Every quantisation of the catalogue, as hf_quant_config.json says it."""
    from workloads.models.catalogue import catalogue

    own = [dict(model.hf_quant) for model in catalogue().values() if model.hf_quant]
    tables = [config["quantization_config"] for config in configs() if "quantization_config" in config]
    unique = {json.dumps(one): one for one in (*own, *({"quantization": table} for table in tables))}
    return list(unique.values())


def _nested_words() -> set[str]:
    return {key for found in quantisations() for key in found.get("quantization", {})}


def _seeds(documents: list[dict[str, Any]]) -> list[bytes]:
    return [json.dumps(document).encode() for document in documents]
