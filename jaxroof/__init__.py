"""Time, memory and cost of LLM inference on any hardware, as pure JAX functions of pytrees."""

from jaxroof.batch import Batch, Decode, Prefill, decode, mixed, prefill
from jaxroof.deployment import Deployment
from jaxroof.efficiency import Efficiency, datasheet
from jaxroof.hardware import Cores, Hardware, Link, Links, Memory, MemoryLevel, Power
from jaxroof.memory import (
    active_parameter_count,
    kv_bytes_per_token,
    kv_capacity_tokens,
    parameter_count,
    sequence_capacity,
    weight_bytes,
)
from jaxroof.model import Attention, Block, Experts, FeedForward, Model, WeightFormat
from jaxroof.op import BOUNDS, Op
from jaxroof.request import RequestCost, Requests, request_cost
from jaxroof.step import OpCost, step_cost, step_time, step_times

__all__ = [
    "BOUNDS",
    "Attention",
    "Batch",
    "Block",
    "Cores",
    "Decode",
    "Deployment",
    "Efficiency",
    "Experts",
    "FeedForward",
    "Hardware",
    "Link",
    "Links",
    "Memory",
    "MemoryLevel",
    "Model",
    "Op",
    "OpCost",
    "Power",
    "Prefill",
    "RequestCost",
    "Requests",
    "WeightFormat",
    "active_parameter_count",
    "datasheet",
    "decode",
    "kv_bytes_per_token",
    "kv_capacity_tokens",
    "mixed",
    "parameter_count",
    "prefill",
    "request_cost",
    "sequence_capacity",
    "step_cost",
    "step_time",
    "step_times",
    "weight_bytes",
]
