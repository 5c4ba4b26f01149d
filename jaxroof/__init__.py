"""Time, memory and cost of LLM inference on any hardware, as pure JAX functions of pytrees."""

from jaxroof.area import area_parts, die_area
from jaxroof.batch import Batch, Decode, Encode, Prefill, decode, mixed, prefill
from jaxroof.collectives import ALGORITHMS, collective_algorithm, collective_time, collective_times
from jaxroof.cost import cost_parts, device_cost, device_price, die_cost, owning_rate
from jaxroof.deployment import Adapters, Deployment
from jaxroof.efficiency import Efficiency, datasheet
from jaxroof.energy import limited_time, op_energy, power_known
from jaxroof.hardware import Cores, Energy, Hardware, Link, Links, Memory, MemoryLevel, Power, Protocol, Transport
from jaxroof.jobs.attention_split import AttentionSplitCost, attention_split_cost
from jaxroof.jobs.colocated import Colocated, TenantCost, colocated_cost
from jaxroof.jobs.composition import RequestCost, Requests
from jaxroof.jobs.disaggregated import Handover, HandoverCost, disaggregated_cost
from jaxroof.jobs.feedback import FeedbackCost, Scorer, feedback_cost
from jaxroof.jobs.pool_split import Curve, split_latency
from jaxroof.jobs.request import request_cost
from jaxroof.jobs.scenario import Pool, Tenant
from jaxroof.jobs.serve import Objective, serving_metrics
from jaxroof.layers.attention import Attention
from jaxroof.layers.compressed_attention import CompressedAttention
from jaxroof.layers.indexer import Selection
from jaxroof.layers.latent_attention import LatentAttention
from jaxroof.layers.linear_attention import LinearAttention
from jaxroof.memory import (
    active_parameter_count,
    kv_bytes_per_token,
    kv_capacity_tokens,
    parameter_count,
    sequence_capacity,
    weight_bytes,
)
from jaxroof.model import Block, Encoder, Experts, FeedForward, Model, Prediction, Projection, WeightFormat
from jaxroof.money import Costs
from jaxroof.op import BOUNDS, Collective, Copy, Kernel, Op
from jaxroof.policy import Policy
from jaxroof.scheduler import Size, simulate
from jaxroof.silicon import Areas, Process, Silicon
from jaxroof.speculation import beta_acceptance, expected_tokens
from jaxroof.step import OpCost, step_cost, step_time, step_times
from jaxroof.traffic import Served, Timeline, Traffic
from jaxroof.training import Iteration, LoRA, Training, TrainingMemory, iteration_cost, training_memory
from jaxroof.version import VERSION as __version__

__all__ = [
    "ALGORITHMS",
    "BOUNDS",
    "Adapters",
    "Areas",
    "Attention",
    "AttentionSplitCost",
    "Batch",
    "Block",
    "Collective",
    "Colocated",
    "CompressedAttention",
    "Copy",
    "Cores",
    "Costs",
    "Curve",
    "Decode",
    "Deployment",
    "Efficiency",
    "Encode",
    "Encoder",
    "Energy",
    "Experts",
    "FeedForward",
    "FeedbackCost",
    "Handover",
    "HandoverCost",
    "Hardware",
    "Iteration",
    "Kernel",
    "LatentAttention",
    "LinearAttention",
    "Link",
    "Links",
    "LoRA",
    "Memory",
    "MemoryLevel",
    "Model",
    "Objective",
    "Op",
    "OpCost",
    "Policy",
    "Pool",
    "Power",
    "Prediction",
    "Prefill",
    "Process",
    "Projection",
    "Protocol",
    "RequestCost",
    "Requests",
    "Scorer",
    "Selection",
    "Served",
    "Silicon",
    "Size",
    "Tenant",
    "TenantCost",
    "Timeline",
    "Traffic",
    "Training",
    "TrainingMemory",
    "Transport",
    "WeightFormat",
    "__version__",
    "active_parameter_count",
    "area_parts",
    "attention_split_cost",
    "beta_acceptance",
    "collective_algorithm",
    "collective_time",
    "collective_times",
    "colocated_cost",
    "cost_parts",
    "datasheet",
    "decode",
    "device_cost",
    "device_price",
    "die_area",
    "die_cost",
    "disaggregated_cost",
    "expected_tokens",
    "feedback_cost",
    "iteration_cost",
    "kv_bytes_per_token",
    "kv_capacity_tokens",
    "limited_time",
    "mixed",
    "op_energy",
    "owning_rate",
    "parameter_count",
    "power_known",
    "prefill",
    "request_cost",
    "sequence_capacity",
    "serving_metrics",
    "simulate",
    "split_latency",
    "step_cost",
    "step_time",
    "step_times",
    "training_memory",
    "weight_bytes",
]
