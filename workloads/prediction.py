"""The multi-token-prediction head that a config describes."""

from collections.abc import Callable

from jaxroof.model import Block, Prediction
from workloads.config import Config
from workloads.layer import Layer

PREDICTION_KEYS = ("num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers")
"""The spellings of the number of multi-token-prediction modules. Where several are there, the first one counts."""


def prediction_count(config: Config) -> int:
    """Number of a config's multi-token-prediction modules; 0 without."""
    for key in PREDICTION_KEYS:
        if config.value(key) is not None:
            return config.count(key, minimum=0)
    return 0


def prediction(layer: Layer, read: Callable[[Layer], Block]) -> Prediction | None:
    """The multi-token-prediction head, or None. Every module has one layer and three norms.

    Published counts of parameters are those of the model without it: 671 billion of DeepSeek-V3's 685.

    Args:
      layer: where a module's layer would follow the last one.
      read: what makes a block of one layer.
    """
    count = prediction_count(layer.config)
    if not count:
        return None
    return Prediction(
        count=float(count),
        block=read(layer),
        projection=layer.product(["eh_proj"]),
        other_parameters=3.0 * layer.hidden,
    )
