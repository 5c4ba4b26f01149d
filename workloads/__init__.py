"""Workloads: model architectures by name or from a Hugging Face config, and request streams."""

from workloads.models.catalogue import CatalogueModel, catalogue, names
from workloads.models.entry import ModelEntry, model
from workloads.models.images import ImageCount, ImageTokens, encoder_tokens

__all__ = ["CatalogueModel", "ImageCount", "ImageTokens", "ModelEntry", "catalogue", "encoder_tokens", "model", "names"]
