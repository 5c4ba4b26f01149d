"""Families of models that can be read: the one table of `model_type`s."""

from workloads.families.bidirectional import BIDIRECTIONAL
from workloads.families.classic import CLASSIC
from workloads.families.family import Family
from workloads.families.gemma import GEMMA
from workloads.families.gpt import GPT
from workloads.families.latent import LATENT
from workloads.families.linear import LINEAR
from workloads.families.mixtures import MIXTURES
from workloads.families.qwen import QWEN

FAMILIES: dict[str, Family] = CLASSIC | QWEN | GEMMA | GPT | MIXTURES | LATENT | LINEAR | BIDIRECTIONAL
"""`model_type` -> family. A type that is not here is refused by name."""
