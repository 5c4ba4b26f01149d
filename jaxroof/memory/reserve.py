"""Device memory that is neither weights nor KV cache: the step's activations, the sampler, graphs, driver, messages."""

from jaxroof.deployment import Deployment, largest_stage, replica_devices, request_groups, splits_requests
from jaxroof.hardware import Hardware, spread_over_mesh
from jaxroof.layers.registry import feed_forward_kind, mixer_kind
from jaxroof.model import Block, Model
from jaxroof.numerics.arrays import jnp
from jaxroof.numerics.smooth import floor, maximum, minimum
from jaxroof.numerics.struct import Scalar

RESIDUALS = 3.0
"""Hidden states alive at the peak of a layer: its input, the residual and the norm's result.

Source: ours, vLLM's logged peaks of 20,000 and 29,000 tokens of Llama-3.1-8B, to 0.5 %: `tests.evidence.startup_logs`.
"""

LARGE_BYTES, LARGE_OLD_BYTES = 70.0 * 2**30, 90.0 * 2**30
"""B of device memory from which vLLM profiles `LARGE_ROWS` sequences. Source: vllm/engine/arg_utils.py,
`get_batch_defaults`, which excludes the A100: here, 80 GB beside cores whose matrix units do not fetch operands."""

LARGE_ROWS, SMALL_ROWS = 1024.0, 256.0
"""Sequences that vLLM's server runs at most by default. Source: as above."""

WHOLE_SHARE = 0.9
"""Share of all memory that an engine takes where nothing is given. Source: vLLM's gpu_memory_utilization to 0.18."""

DRIVER_BYTES, DRIVER_SHARE = 0.25 * 2**30, 0.0065
"""Memory that software never sees: B per device and share of the capacity. Source: ours, total memory that CUDA names
for cards of 24 to 180 GiB against the datasheet: `tests.evidence.startup_logs`. AMD's for data centres show all."""

CONTEXT_BYTES = 0.65 * 2**30
"""B of a context with its libraries, which count where the engine looks at free memory. Source: as above, SGLang's."""

LIBRARY_BYTES = 0.15 * 2**30
"""B that kernels' libraries allocate beside PyTorch after the context. Source: as above, vLLM's `non_torch_memory`."""

PEER_BYTES, SWITCHED_BYTES, SWITCHED_PEER_BYTES, PEERS = 0.1 * 2**30, 1.0 * 2**30, 0.2 * 2**30, 7.0
"""B of communication buffers of a device with peers; more where a switch adds up (NVLS), and for each of up to 7 peers.
Source: as above, 1.38 GiB on 2 H200 and 1.84 on 4 H100 against 0.05 to 0.12 on one device."""


def activation_bytes(model: Model, deployment: Deployment) -> Scalar:
    """B of the largest step's live activations on one device, shape ().

    max_batched_tokens x (3 hidden + widest layer's intermediate values). Experts keep the products of all experts of a
    token: those of the first, which share their room with the results, and those of the activation function.
    """
    widths = [width for block in model.blocks for width in _widths(block, model.hidden, deployment)]
    # Layers run one after the other and free what they used: the widest layer decides, with the residual stream beside
    # it.
    elements = deployment.max_batched_tokens * (RESIDUALS * model.hidden + maximum(*widths))
    return elements * deployment.activation_bytes


def _widths(block: Block, hidden: Scalar, deployment: Deployment) -> list[Scalar]:
    """Elements per token between the matrices of a layer on one device."""
    mixer, feedforward, widths = block.attention, block.feedforward, []
    if mixer is not None:
        widths.append(mixer_kind(mixer).width(mixer, deployment))
    if feedforward is not None:
        widths.append(feed_forward_kind(feedforward).width(feedforward, hidden, deployment))
    return widths


def sampled_rows(hardware: Hardware, deployment: Deployment) -> Scalar:
    """Sequences whose logits the profiling step samples, shape (): never more than its tokens."""
    rows = deployment.sampled_rows
    if rows is None:
        # Hopper and later, and AMD's data-centre GPUs: the class of devices that vLLM gives its larger default.
        newer = maximum(hardware.cores.asynchronous, hardware.cores.wide_waves) > 0.0
        least = jnp.where(newer, LARGE_BYTES, LARGE_OLD_BYTES)
        rows = jnp.where(hardware.memory.hbm.capacity >= least, LARGE_ROWS, SMALL_ROWS)
    return minimum(rows, deployment.max_batched_tokens)


def sampler_bytes(hardware: Hardware, model: Model, deployment: Deployment) -> Scalar:
    """B of the profiling step's sampler at its peak on one device, shape (); 0 for a model that generates nothing.

    rows x vocabulary x logit_bytes, and the step's last hidden states. Every tensor-parallel device has all logits.
    """
    if not model.generates:
        return 0.0
    hidden = deployment.max_batched_tokens * model.hidden * deployment.activation_bytes
    # Logits in float32 and the sampler's sorted copies of them: up to several GB at 1024 sequences and large
    # vocabularies.
    return sampled_rows(hardware, deployment) * model.vocabulary * deployment.logit_bytes + hidden


def captured_bytes(model: Model, deployment: Deployment) -> Scalar:
    """B of CUDA graphs that the engine sets aside before it sizes the cache, shape ()."""
    layers = sum(block.count for block in model.blocks)
    # Graphs hold the kernels of every layer: their bytes grow with the layers of the stage.
    return deployment.graph_bytes * layers * largest_stage(deployment, layers)


def other_bytes(hardware: Hardware, deployment: Deployment) -> Scalar:
    """B of a device that driver, context, libraries and communication take from the engine's share, shape ().

    `reserve_bytes` where the deployment gives it. Else what the driver hides, which a share of all memory has its part
    of; the context too where the engine counts free memory; and buffers for messages where a replica has peers.
    """
    if deployment.reserve_bytes is not None:
        return deployment.reserve_bytes
    # A program that is spread over a mesh has neither driver nor libraries on the device.
    if spread_over_mesh(hardware):
        return 0.0
    # What the driver hides; AMD's for data centres hide nothing.
    hidden = (1.0 - hardware.cores.wide_waves) * (DRIVER_BYTES + DRIVER_SHARE * hardware.memory.hbm.capacity)
    buffers = LIBRARY_BYTES + _peer_bytes(hardware, replica_devices(deployment) - 1.0)
    looks_at_free = maximum(deployment.memory_of_free, deployment.memory_static)
    # An engine that looks at free memory sees the context and the buffers as taken; one that counts a share of all does
    # not.
    seen = hidden + looks_at_free * (CONTEXT_BYTES + buffers)
    # A share of all memory includes its part of what is hidden.
    part = jnp.where(deployment.memory_of_free > 0.0, 1.0, memory_share(hardware, deployment))
    return part * seen + (1.0 - looks_at_free) * buffers


def _peer_bytes(hardware: Hardware, peers: Scalar) -> Scalar:
    """B of communication buffers of a device that has so many peers; 0 for none."""
    inner = hardware.links.scale_up
    # NVLS (reduction in the switch) maps multicast buffers for each peer.
    switched = SWITCHED_BYTES + SWITCHED_PEER_BYTES * minimum(peers, PEERS)
    buffers = PEER_BYTES + (0.0 if inner is None else switched * inner.reduces)
    return jnp.where(peers > 0.0, buffers, 0.0)


def memory_share(hardware: Hardware, deployment: Deployment) -> Scalar:
    """Share of the device's memory that the engine's rule speaks of, shape (): all of it where no engine runs."""
    if spread_over_mesh(hardware):
        return 1.0
    if deployment.memory_utilization is not None:
        return deployment.memory_utilization
    return jnp.where(deployment.memory_static > 0.0, static_share(hardware, deployment), WHOLE_SHARE)


def static_share(hardware: Hardware, deployment: Deployment) -> Scalar:
    """Share of memory that SGLang takes for weights and cache where nothing is given, shape ().

    1 - reserve / memory, rounded to thousandths; in MiB the reserve is 512 + 1.5 x chunk + 2 x graphs + 128 x devices,
    with 3 x graphs x groups more under data-parallel attention (4.5 above 300), and at least 10 GiB on devices
    of more than 60 GiB. Chunk and graphs follow from the memory.

    Source: sgl-project/sglang, python/sglang/srt/server_args.py, `_handle_gpu_memory_settings`, v0.5.
    """
    mebibytes = hardware.memory.hbm.capacity / 2**20
    ranks = replica_devices(deployment)
    few = ranks < 4.0
    chunk, graphs = 2048.0, 8.0
    # Classes are data thresholds, so the last one that the memory reaches is selected, branch-free.
    for least, next_chunk, narrow, wide in _STATIC_CLASSES:
        large = mebibytes >= least * 1024.0
        chunk = jnp.where(large, next_chunk, chunk)
        graphs = jnp.where(large, jnp.where(few, narrow, wide), graphs)
    reserve = 512.0 + 1.5 * chunk + 2.0 * graphs + 128.0 * ranks
    if splits_requests(deployment):
        groups = request_groups(deployment)
        padding = jnp.where(graphs > 300.0, 4.5, 3.0) * graphs * groups
        reserve = reserve + jnp.where(groups > 1.0, padding, 0.0)
    reserve = jnp.where(mebibytes > 60.0 * 1024.0, maximum(reserve, 10.0 * 1024.0), reserve)
    # SGLang rounds the fraction to thousandths: on a device of 80 GB one of them is 80 MB of cache.
    return maximum(floor((1.0 - reserve / mebibytes) * 1000.0 + 0.5) / 1000.0, LEAST_SHARE)


LEAST_SHARE = 0.01
"""Share where the reserve is larger than the memory: nothing fits, and figures stay finite."""

_STATIC_CLASSES = (
    (20.0, 2048.0, 24.0, 80.0),
    (35.0, 4096.0, 32.0, 160.0),
    (60.0, 8192.0, 256.0, 512.0),
    (160.0, 16384.0, 512.0, 512.0),
)
"""GiB from which on, tokens of a chunk, largest captured batch on fewer than 4 devices, and on more."""
