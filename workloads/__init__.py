"""What is run: model architectures by name or from a Hugging Face config."""

from workloads.catalogue import CatalogueModel, catalogue, names
from workloads.entry import ModelEntry, model

__all__ = ["CatalogueModel", "ModelEntry", "catalogue", "model", "names"]
