"""One layer that is being read: the source of its sizes, and how each of its matrices is stored."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from jaxroof.model import WeightFormat
from workloads.config import REQUIRED, Config
from workloads.family import Family
from workloads.storage import Quantization, linear_format
from workloads.tensors import Tensor
from workloads.windows import FULL, Window

MOST_LAYERS = 2_000
"""More layers than any model has: a wrong figure should not take all memory to read."""

LAYER_KEYS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HIDDEN_KEYS = ("hidden_size", "n_embd", "d_model", "n_embed", "dim")
HEAD_KEYS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KV_HEAD_KEYS = (
    "num_key_value_heads",
    "num_kv_heads",
    "multi_query_group_num",
    "num_attention_groups",
    "attn_config.kv_n_heads",
)
INTERMEDIATE_KEYS = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "hidden_dim", "d_ff")
HEAD_DIM_KEYS = ("head_dim", "kv_channels", "attention_head_dim")
VOCABULARY_KEYS = ("vocab_size", "padded_vocab_size")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layer:
    """The layer at `index` of a config. Beyond the last layer it is a multi-token-prediction module's."""

    config: Config  # the table that describes the language model
    family: Family
    hidden: float
    index: int
    window: Window = FULL
    quantised: Quantization
    base: WeightFormat  # of what is not quantised
    name: str  # of the model, in errors

    def size(self, *keys: str, default: Any = REQUIRED) -> Any:
        """A positive integer of the config, or the family's published default of the first key."""
        return self.config.count(*keys, default=dict(self.family.defaults).get(keys[0], default))

    def product(
        self,
        modules: Sequence[str],
        fused: str = "",
        parent: str = "",
        experts: bool = False,
        inputs: float | None = None,
        outputs: Sequence[float] | None = None,
    ) -> WeightFormat:
        """The format of one product that runs `modules` of `parent` as one; `fused` is the name of several as one.

        Without modules it is a product that no checkpoint quantises.

        Args:
          modules, fused, parent: names in a checkpoint.
          experts: whether it is of routed experts.
          inputs: columns; None: the hidden size.
          outputs: rows of each of the modules, in proportion; None: of equal size.
        """
        if not modules or (self.quantised.experts_only and not experts):
            return self.base
        one = fused if len(modules) > 1 else ""
        tensors = [
            Tensor(
                paths=(self._path(parent, module), self._path(parent, one or module)),
                kind=self.family.modules.kind(module),
                inputs=self.hidden if inputs is None else inputs,
                outputs=rows,
                layer=self.index,
                routed=experts,
            )
            for module, rows in zip(modules, outputs or [1.0] * len(modules), strict=True)
        ]
        return linear_format(self.quantised, tensors, self.base, self.name)

    def router(self, parent: str) -> WeightFormat:
        """The format of the scores of experts, which few checkpoints quantise."""
        if not self.quantised.router:
            return self.base
        paths = tuple(self._path(parent, name) for name in ("gate", "router"))
        return linear_format(
            self.quantised, [Tensor(paths, "router", self.hidden, layer=self.index)], self.base, self.name
        )

    def _path(self, parent: str, module: str) -> str:
        return ".".join(part for part in (self.family.modules.layers, str(self.index), parent, module) if part)


def layer_count(config: Config) -> int:
    """Number of a config's layers, at most 2,000; where no key holds it, that of the layers it lists."""
    listed = config.value("layers_block_type", default=[])
    default = len(listed) if isinstance(listed, list) and listed else REQUIRED
    layers = config.count(*LAYER_KEYS, default=default)
    if layers > MOST_LAYERS:
        raise config.error(f"{config.spelling(*LAYER_KEYS)} is {layers}; it must be at most {MOST_LAYERS}")
    return layers
