"""Workloads: model architectures by name or from a Hugging Face config, and request streams."""

from jaxroof.version import VERSION as __version__  # noqa: F401
from workloads.models.catalogue import CatalogueModel as CatalogueModel
from workloads.models.catalogue import catalogue as catalogue
from workloads.models.catalogue import names as names
from workloads.models.entry import ModelEntry as ModelEntry
from workloads.models.entry import model as model
from workloads.models.images import ImageCount as ImageCount
from workloads.models.images import ImageTokens as ImageTokens
from workloads.models.images import encoder_tokens as encoder_tokens
