"""One linear layer of a checkpoint: its paths in exports, what it is for, and its sizes."""

import dataclasses

KINDS = {
    "query": "queries of attention",
    "key": "keys of attention",
    "value": "values of attention",
    "qkv": "queries, keys and values in one matrix",
    "output": "output of attention",
    "gate": "gate of a feed-forward layer",
    "up": "projection up of a feed-forward layer",
    "down": "projection down of a feed-forward layer",
    "router": "scores of experts",
    "embedding": "table of tokens",
    "head": "output head",
    "other": "any other linear layer",
}
"""What a linear layer is for, in words."""


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One linear layer."""

    paths: tuple[str, ...]  # that different exports give it
    kind: str = "other"  # a key of `KINDS`
    inputs: float = 0.0  # columns, along which groups of weights lie; 0: not known
    outputs: float = 1.0  # rows, or their share in a product that runs several layers as one
    layer: int = 0  # index, from 0
    routed: bool = False  # of an expert
