"""Workloads: model architectures by name or from a Hugging Face config, and request streams."""

from workloads.catalogue import CatalogueModel, catalogue, names
from workloads.entry import ModelEntry, model
from workloads.images import ImageCount, ImageTokens, encoder_tokens

__all__ = ["CatalogueModel", "ImageCount", "ImageTokens", "ModelEntry", "catalogue", "encoder_tokens", "model", "names"]
