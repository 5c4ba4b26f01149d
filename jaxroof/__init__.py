"""Time, memory and cost of LLM inference on any hardware, as pure JAX functions of pytrees."""

TYPE_CHECKING = False  # of `typing`, whose import would take longer than this one

if TYPE_CHECKING:
    from jaxroof.batch import Batch as Batch
    from jaxroof.batch import Decode as Decode
    from jaxroof.batch import Encode as Encode
    from jaxroof.batch import Policy as Policy
    from jaxroof.batch import Prefill as Prefill
    from jaxroof.batch import Served as Served
    from jaxroof.batch import Timeline as Timeline
    from jaxroof.batch import Traffic as Traffic
    from jaxroof.batch import decode as decode
    from jaxroof.batch import mixed as mixed
    from jaxroof.batch import prefill as prefill
    from jaxroof.chip.area import area_parts as area_parts
    from jaxroof.chip.area import die_area as die_area
    from jaxroof.chip.area import edge_needed as edge_needed
    from jaxroof.chip.area import interposer_use as interposer_use
    from jaxroof.chip.area import package_uses as package_uses
    from jaxroof.chip.area import power_density_use as power_density_use
    from jaxroof.chip.area import reticle_use as reticle_use
    from jaxroof.chip.area import shoreline_use as shoreline_use
    from jaxroof.chip.cost import cost_parts as cost_parts
    from jaxroof.chip.cost import device_cost as device_cost
    from jaxroof.chip.cost import device_price as device_price
    from jaxroof.chip.cost import die_cost as die_cost
    from jaxroof.chip.cost import owning_rate as owning_rate
    from jaxroof.collectives import ALGORITHMS as ALGORITHMS
    from jaxroof.collectives import collective_algorithm as collective_algorithm
    from jaxroof.collectives import collective_time as collective_time
    from jaxroof.collectives import collective_times as collective_times
    from jaxroof.deployment import Adapters as Adapters
    from jaxroof.deployment import Deployment as Deployment
    from jaxroof.deployment.speculation import beta_acceptance as beta_acceptance
    from jaxroof.deployment.speculation import expected_tokens as expected_tokens
    from jaxroof.efficiency import Efficiency as Efficiency
    from jaxroof.efficiency import datasheet as datasheet
    from jaxroof.energy.energy import Joules as Joules
    from jaxroof.energy.energy import op_energy as op_energy
    from jaxroof.energy.energy import power_known as power_known
    from jaxroof.energy.governor import limited_time as limited_time
    from jaxroof.energy.governor import mean_power as mean_power
    from jaxroof.energy.technology import clock_at as clock_at
    from jaxroof.energy.technology import leakage as leakage
    from jaxroof.energy.technology import peak_power as peak_power
    from jaxroof.energy.technology import static_power as static_power
    from jaxroof.energy.technology import voltage_at as voltage_at
    from jaxroof.hardware import Cores as Cores
    from jaxroof.hardware import Energy as Energy
    from jaxroof.hardware import Hardware as Hardware
    from jaxroof.hardware import Link as Link
    from jaxroof.hardware import Links as Links
    from jaxroof.hardware import Memory as Memory
    from jaxroof.hardware import MemoryLevel as MemoryLevel
    from jaxroof.hardware import OnChip as OnChip
    from jaxroof.hardware import Power as Power
    from jaxroof.hardware import Protocol as Protocol
    from jaxroof.hardware import Transport as Transport
    from jaxroof.hardware import VoltageCurve as VoltageCurve
    from jaxroof.jobs.colocated import Colocated as Colocated
    from jaxroof.jobs.colocated import TenantCost as TenantCost
    from jaxroof.jobs.colocated import colocated_cost as colocated_cost
    from jaxroof.jobs.composition import RequestCost as RequestCost
    from jaxroof.jobs.composition import Requests as Requests
    from jaxroof.jobs.disaggregated import Handover as Handover
    from jaxroof.jobs.disaggregated import HandoverCost as HandoverCost
    from jaxroof.jobs.disaggregated import disaggregated_cost as disaggregated_cost
    from jaxroof.jobs.feedback import FeedbackCost as FeedbackCost
    from jaxroof.jobs.feedback import Scorer as Scorer
    from jaxroof.jobs.feedback import feedback_cost as feedback_cost
    from jaxroof.jobs.request import request_cost as request_cost
    from jaxroof.jobs.scenario import Pool as Pool
    from jaxroof.jobs.scenario import Tenant as Tenant
    from jaxroof.jobs.serve import Objective as Objective
    from jaxroof.jobs.serve import serving_metrics as serving_metrics
    from jaxroof.jobs.splits import AttentionSplitCost as AttentionSplitCost
    from jaxroof.jobs.splits import Curve as Curve
    from jaxroof.jobs.splits import attention_split_cost as attention_split_cost
    from jaxroof.jobs.splits import split_latency as split_latency
    from jaxroof.layers.attention import Attention as Attention
    from jaxroof.layers.compressed_attention import CompressedAttention as CompressedAttention
    from jaxroof.layers.latent_attention import LatentAttention as LatentAttention
    from jaxroof.layers.linear_attention import LinearAttention as LinearAttention
    from jaxroof.layers.sight import Selection as Selection
    from jaxroof.memory.capacity import active_parameter_count as active_parameter_count
    from jaxroof.memory.capacity import kv_bytes_per_token as kv_bytes_per_token
    from jaxroof.memory.capacity import kv_capacity_tokens as kv_capacity_tokens
    from jaxroof.memory.capacity import parameter_count as parameter_count
    from jaxroof.memory.capacity import sequence_capacity as sequence_capacity
    from jaxroof.memory.capacity import weight_bytes as weight_bytes
    from jaxroof.model import Block as Block
    from jaxroof.model import Encoder as Encoder
    from jaxroof.model import Experts as Experts
    from jaxroof.model import FeedForward as FeedForward
    from jaxroof.model import Model as Model
    from jaxroof.model import Prediction as Prediction
    from jaxroof.model import Projection as Projection
    from jaxroof.model import WeightFormat as WeightFormat
    from jaxroof.op import BOUNDS as BOUNDS
    from jaxroof.op import Collective as Collective
    from jaxroof.op import Copy as Copy
    from jaxroof.op import Kernel as Kernel
    from jaxroof.op import Op as Op
    from jaxroof.scheduler import Size as Size
    from jaxroof.scheduler import simulate as simulate
    from jaxroof.silicon import Areas as Areas
    from jaxroof.silicon import Costs as Costs
    from jaxroof.silicon import Package as Package
    from jaxroof.silicon import Process as Process
    from jaxroof.silicon import Silicon as Silicon
    from jaxroof.step.step import OpCost as OpCost
    from jaxroof.step.step import step_cost as step_cost
    from jaxroof.step.step import step_time as step_time
    from jaxroof.step.step import step_times as step_times
    from jaxroof.training import Iteration as Iteration
    from jaxroof.training import LoRA as LoRA
    from jaxroof.training import Training as Training
    from jaxroof.training import TrainingMemory as TrainingMemory
    from jaxroof.training import iteration_cost as iteration_cost
    from jaxroof.training import training_memory as training_memory
    from jaxroof.version import VERSION as __version__  # noqa: F401

_HOMES = {
    "area": "area_parts die_area",
    "batch": "Batch Decode Encode Prefill decode mixed prefill",
    "collectives": "ALGORITHMS collective_algorithm collective_time collective_times",
    "cost": "cost_parts device_cost device_price die_cost owning_rate",
    "deployment": "Adapters Deployment",
    "efficiency": "Efficiency datasheet",
    "energy": "Joules op_energy power_known",
    "governor": "limited_time mean_power",
    "hardware": "Cores Energy Hardware Link Links Memory MemoryLevel OnChip Power Protocol Transport VoltageCurve",
    "jobs.attention_split": "AttentionSplitCost attention_split_cost",
    "jobs.colocated": "Colocated TenantCost colocated_cost",
    "jobs.composition": "RequestCost Requests",
    "jobs.disaggregated": "Handover HandoverCost disaggregated_cost",
    "jobs.feedback": "FeedbackCost Scorer feedback_cost",
    "jobs.pool_split": "Curve split_latency",
    "jobs.request": "request_cost",
    "jobs.scenario": "Pool Tenant",
    "jobs.serve": "Objective serving_metrics",
    "layers.attention": "Attention",
    "layers.compressed_attention": "CompressedAttention",
    "layers.indexer": "Selection",
    "layers.latent_attention": "LatentAttention",
    "layers.linear_attention": "LinearAttention",
    "memory": "active_parameter_count kv_bytes_per_token kv_capacity_tokens parameter_count sequence_capacity "
    "weight_bytes",
    "model": "Block Encoder Experts FeedForward Model Prediction Projection WeightFormat",
    "money": "Costs",
    "op": "BOUNDS Collective Copy Kernel Op",
    "package": "edge_needed interposer_use package_uses power_density_use reticle_use shoreline_use",
    "policy": "Policy",
    "scheduler": "Size simulate",
    "silicon": "Areas Package Process Silicon",
    "speculation": "beta_acceptance expected_tokens",
    "step": "OpCost step_cost step_time step_times",
    "technology": "clock_at leakage peak_power static_power voltage_at",
    "traffic": "Served Timeline Traffic",
    "training": "Iteration LoRA Training TrainingMemory iteration_cost training_memory",
}
"""Module -> its public names."""

_HOME = {name: f"jaxroof.{module}" for module, listed in _HOMES.items() for name in listed.split()}

__all__ = sorted([*_HOME, "__version__"])  # noqa: PLE0605


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Import a public name, or a module, when it is first used: most questions need few of them."""
    import importlib
    import importlib.util

    if name == "__version__":
        return importlib.import_module("jaxroof.version").VERSION
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name[:1] == "_" or importlib.util.find_spec(f"jaxroof.{name}") is None:
        raise AttributeError(f"module 'jaxroof' has no attribute {name!r}")
    return importlib.import_module(f"jaxroof.{name}")
