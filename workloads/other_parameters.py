"""How many parameters a model has beside its matrices: norms, biases, attention sinks, learned positions."""

from jaxroof.model import Attention, Experts, FeedForward
from workloads.config import Config
from workloads.family import Family, Switch

POSITION_KEYS = ("max_position_embeddings", "n_positions", "seq_length")
"""The spellings of the longest sequence."""


def layer_parameters(
    config: Config, family: Family, hidden: float, attention: Attention, feedforward: FeedForward | Experts
) -> float:
    """Parameters of one layer that are in no matrix: norms, QK norms, biases, sinks, score corrections."""
    parameters = family.norms * norm_parameters(family, hidden)
    parameters += _qk_norm(config, family, attention)
    if switched(config, family.qkv_bias):
        parameters += attention.heads * attention.head_dim
        parameters += attention.kv_heads * (attention.head_dim + attention.value_dim)
    if switched(config, family.output_bias):
        parameters += hidden
    if _has_sinks(config, family, attention):
        parameters += attention.heads
    if isinstance(feedforward, Experts):
        return parameters + _expert_parameters(family, hidden, feedforward)
    if switched(config, family.ffn_bias):
        parameters += feedforward.up_projections * feedforward.intermediate + hidden
    return parameters


def model_parameters(config: Config, family: Family, hidden: float) -> float:
    """Parameters outside the layers that are in no embedding or head: the final norm and learned positions."""
    parameters = norm_parameters(family, hidden)
    if family.positions_extra is not None:
        parameters += (config.count(*POSITION_KEYS) + family.positions_extra) * hidden
    return parameters


def norm_parameters(family: Family, hidden: float) -> float:
    """Parameters of one norm over the hidden size."""
    if family.norm_free:
        return 0.0
    return hidden * (2.0 if family.norm_bias else 1.0)


def switched(config: Config, switch: Switch) -> bool:
    """Whether a model has what `switch` describes."""
    return switch if isinstance(switch, bool) else config.flag(*switch)


def _qk_norm(config: Config, family: Family, attention: Attention) -> float:
    if not switched(config, family.qk_norm):
        return 0.0
    if family.qk_norm_width == "head":
        return 2.0 * attention.head_dim
    return (attention.heads + attention.kv_heads) * attention.head_dim


def _has_sinks(config: Config, family: Family, attention: Attention) -> bool:
    if family.windows != "pattern":
        return switched(config, family.sinks)
    key = "add_swa_attention_sink_bias" if attention.window is not None else "add_full_attention_sink_bias"
    return config.flag(key, False)


def _expert_parameters(family: Family, hidden: float, layer: Experts) -> float:
    rules = family.experts
    parameters = 0.0
    if rules.router_bias:
        parameters += layer.experts
    if rules.score_correction:
        parameters += layer.experts
    if rules.expert_bias:
        parameters += layer.experts * (layer.up_projections * layer.intermediate + hidden)
    if rules.shared_gate and layer.shared is not None:
        parameters += hidden
    return parameters
