"""Throughput of Llama models in fp8 on Gaudi 2 and Gaudi 3, as their vendor publishes it."""

from typing import NamedTuple

SOURCES = {
    "Gaudi2": "https://www.intel.com/content/www/us/en/developer/platform/gaudi/model-performance-gaudi2-inference.html",
    "Gaudi3": "https://www.intel.com/content/www/us/en/developer/platform/gaudi/model-performance.html",
}
"""Device -> page that its rows are from: Intel, Model Performance Data, software release 1.18.0."""


class Published(NamedTuple):
    """One row of the pages."""

    device: str
    model: str
    devices: int
    isl: int
    osl: int
    batch: int
    tokens_per_second: float  # output tokens of all devices


ROWS = (
    Published("Gaudi2", "Llama-2-7B", 1, 128, 128, 1230, 13137),
    Published("Gaudi2", "Llama-2-7B", 1, 128, 2048, 163, 4791),
    Published("Gaudi2", "Llama-2-7B", 1, 2048, 128, 94, 1449),
    Published("Gaudi2", "Llama-2-7B", 1, 2048, 2048, 81, 1953),
    Published("Gaudi2", "Llama-2-70B", 2, 128, 128, 1750, 2844),
    Published("Gaudi2", "Llama-2-70B", 4, 128, 2048, 327, 3211),
    Published("Gaudi2", "Llama-2-70B", 2, 2048, 128, 95, 310),
    Published("Gaudi2", "Llama-2-70B", 2, 2048, 2048, 78, 1438),
    Published("Gaudi2", "Llama-3.1-8B", 1, 128, 128, 2429, 18201),
    Published("Gaudi2", "Llama-3.1-8B", 1, 128, 2048, 289, 11138),
    Published("Gaudi2", "Llama-3.1-8B", 1, 2048, 128, 179, 2028),
    Published("Gaudi2", "Llama-3.1-8B", 1, 2048, 2048, 155, 5511),
    Published("Gaudi3", "Llama-2-7B", 1, 128, 128, 1536, 19810),
    Published("Gaudi3", "Llama-2-7B", 1, 128, 2048, 217, 6763),
    Published("Gaudi3", "Llama-2-7B", 1, 2048, 128, 153, 2029),
    Published("Gaudi3", "Llama-2-7B", 1, 2048, 2048, 75, 2734),
    Published("Gaudi3", "Llama-2-70B", 2, 128, 128, 1750, 4433),
    Published("Gaudi3", "Llama-2-70B", 2, 128, 2048, 512, 6026),
    Published("Gaudi3", "Llama-2-70B", 2, 2048, 128, 231, 498),
    Published("Gaudi3", "Llama-2-70B", 2, 2048, 2048, 240, 2641),
    Published("Gaudi3", "Llama-3.1-8B", 1, 128, 128, 1536, 24310),
    Published("Gaudi3", "Llama-3.1-8B", 1, 128, 2048, 768, 18830),
    Published("Gaudi3", "Llama-3.1-8B", 1, 2048, 128, 256, 2652),
    Published("Gaudi3", "Llama-3.1-8B", 1, 2048, 2048, 364, 7405),
    Published("Gaudi3", "Llama-3.1-70B", 2, 128, 128, 3516, 3711),
    Published("Gaudi3", "Llama-3.1-70B", 2, 128, 2048, 450, 5776),
    Published("Gaudi3", "Llama-3.1-70B", 2, 2048, 128, 223, 497),
    Published("Gaudi3", "Llama-3.1-70B", 2, 2048, 2048, 175, 2588),
    Published("Gaudi3", "Llama-3.1-70B", 8, 128, 128, 4000, 15008),
    Published("Gaudi3", "Llama-3.1-70B", 8, 128, 2048, 600, 15711),
    Published("Gaudi3", "Llama-3.1-70B", 8, 2048, 128, 400, 1600),
    Published("Gaudi3", "Llama-3.1-70B", 8, 2048, 2048, 600, 8946),
)
"""Rows of models that the catalogue has."""
