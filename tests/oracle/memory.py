"""Memory of the fullest device, again: matrices counted one by one, and the cache of one token."""

import numpy as np

from tests.oracle.attention import index_heads, kv_heads_held
from tests.oracle.feedforward import stage
from tests.oracle.kernel import SIZE, ways
from tests.oracle.recurrent import key_heads_held, sequence_state


def layer_count(model):
    return sum(block.count for block in model.blocks)


def largest_stage(model, deployment):
    """Share of the layers that the fullest pipeline stage has."""
    if deployment.pp is None:
        return 1.0
    if deployment.stages is not None:
        return np.maximum.reduce(np.broadcast_arrays(*deployment.stages)) / sum(deployment.stages)
    return np.ceil(layer_count(model) / deployment.pp) / layer_count(model)


def _dense(layer, hidden, split):
    return hidden * layer.intermediate / split * (layer.up_projections * layer.up.bytes + layer.down.bytes)


def _experts(layer, hidden, deployment):
    width = hidden if layer.width is None else layer.width
    held = _dense(layer, width, stage(deployment)) * layer.experts  # ep by number, the rest of the way by width
    held = held + hidden * layer.experts * layer.router.bytes
    if layer.width is not None:
        held = held + 2.0 * hidden * width * layer.projection.bytes
    return held if layer.shared is None else held + _dense(layer.shared, hidden, deployment.tp)


def _indexer(selection, hidden, rank):
    if selection is None:
        return 0.0
    inputs = hidden if selection.query_rank is None or rank is None else rank
    queries = inputs * selection.heads * selection.head_dim
    return (queries + hidden * (selection.key_outputs + selection.heads)) * selection.weights.bytes


def _grouped(a, hidden, tp):
    heads, kv = a.heads / tp, kv_heads_held(a, tp)
    outputs = heads * (a.head_dim + a.gate) + kv * (a.head_dim + a.value_projection * a.value_dim)
    if a.selection is not None:  # a block indexer's queries and keys are rows of the same matrix
        outputs = outputs + index_heads(a, tp) * a.selection.head_dim + a.selection.key_outputs
    return hidden * (outputs * a.qkv.bytes + heads * a.value_dim * a.output.bytes)


def _latent(a, hidden, tp):
    rank, key = a.query_rank, a.nope_dim + a.rope_dim
    down = hidden * ((0.0 if rank is None else rank) + a.latent + a.rope_dim) * a.down.bytes
    query = (hidden if rank is None else rank) * a.heads / tp * key * a.query.bytes
    up = a.latent * a.heads / tp * (a.nope_dim + a.value_dim) * a.up.bytes
    output = a.heads / tp * a.value_dim * hidden * a.output.bytes
    gate = 0.0 if a.gate is None else hidden * a.heads / tp * a.gate * a.down.bytes
    return down + query + up + output + gate + _indexer(a.selection, hidden, rank)


def _absorbed(a, deployment):
    """Both halves of the projection to keys and values once more, unquantised, as decode multiplies with them."""
    size = SIZE[deployment.attention_compute]
    wide = np.maximum(size, 2.0)
    return a.latent * a.heads / deployment.tp * (a.nope_dim + a.value_dim) * wide


def _compressed(a, hidden, tp):
    total = hidden * (a.query_rank + a.head_dim) * a.down.bytes
    total = total + a.query_rank * a.heads / tp * a.head_dim * a.query.bytes
    total = total + a.heads * a.head_dim * a.output_rank / tp * a.group.bytes
    total = total + a.output_groups / tp * a.output_rank * hidden * a.output.bytes
    if a.ratio is not None:
        total = total + 2.0 * a.overlap * hidden * a.head_dim * a.compressor.bytes
    return total + _indexer(a.selection, hidden, a.query_rank)


def _linear(a, hidden, tp):
    values = a.heads / tp * a.value_dim
    total = hidden * (2.0 * key_heads_held(a, tp) * a.key_dim + values + a.heads / tp * a.gates) * a.input.bytes
    if a.gate_rank is not None:
        total = total + 2.0 * a.gate_rank * (hidden + values) * a.input.bytes
    return total + values * hidden * a.output.bytes


MIXERS = {
    "Attention": _grouped,
    "LatentAttention": _latent,
    "CompressedAttention": _compressed,
    "LinearAttention": _linear,
}


def _layer(block, hidden, deployment):
    tp, f, x = deployment.tp, block.feedforward, block.cross
    total = 2.0 * block.other_parameters
    if block.attention is not None:
        total = total + MIXERS[type(block.attention).__name__](block.attention, hidden, tp)
        if type(block.attention).__name__ == "LatentAttention":
            total = total + _absorbed(block.attention, deployment)
    if x is not None:
        outputs = x.heads / tp * x.head_dim + kv_heads_held(x, tp) * (x.head_dim + x.value_dim)
        total = total + hidden * (outputs * x.qkv.bytes + x.heads / tp * x.value_dim * x.output.bytes)
    if f is None:
        return total
    return total + (_experts(f, hidden, deployment) if hasattr(f, "experts") else _dense(f, hidden, tp))


def _layers(blocks, hidden, deployment):
    return sum(block.count * _layer(block, hidden, deployment) for block in blocks)


def weight_bytes(model, deployment):
    """B of weights on the fullest device: every matrix's rows times columns times B, its split dimension over tp."""
    table = model.vocabulary / deployment.tp * model.hidden
    first, last = table * model.embedding.bytes, table * model.head.bytes
    outer = first + model.untied * last
    if deployment.pp is not None:
        outer = np.where(deployment.pp > 1.0, np.maximum(first, last), outer)
    total = outer + 2.0 * model.other_parameters
    total = total + largest_stage(model, deployment) * _layers(model.blocks, model.hidden, deployment)
    if model.encoder is not None:
        e = model.encoder
        total = total + _layers(e.blocks, e.hidden, deployment) + 2.0 * e.other_parameters
        total = total + (0.0 if e.inputs is None else e.inputs * e.hidden * e.embedding.bytes)
        total = total + sum(layer.inputs * layer.outputs * layer.weights.bytes for layer in e.projector)
    if model.prediction is not None and deployment.drafts is not None:
        p = model.prediction
        module = 2.0 * model.hidden**2 * p.projection.bytes + 2.0 * p.other_parameters
        total = total + p.count * (module + _layer(p.block, model.hidden, deployment))
    return total


def _token(block, deployment):
    """B that one token leaves in one layer for good."""
    a, kind = block.attention, type(block.attention).__name__
    if kind == "Attention":
        elements = kv_heads_held(a, deployment.tp) * (a.head_dim + a.value_dim)
    elif kind == "LatentAttention":
        elements = a.latent + a.rope_dim
        if a.selection is not None:
            # 8 bits: one 4-byte scale per 128 latent elements, the rotated key stays at 2 bytes
            narrow = np.asarray(deployment.kv_bytes) < 2
            scaled = a.latent * (deployment.kv_bytes + 4 / 128) + 2 * a.rope_dim
            held = np.where(narrow, scaled, elements * deployment.kv_bytes)
            return held + a.selection.head_dim / a.selection.stride * a.selection.key_bytes
    elif kind == "CompressedAttention":
        elements = 0.0 if a.ratio is None else a.head_dim / a.ratio
    else:
        return 0.0
    keys = 0.0 if a.selection is None else a.selection.head_dim / a.selection.stride * a.selection.key_bytes
    return elements * deployment.kv_bytes + keys


def kv_bytes_per_token(model, deployment):
    """B of KV cache of one token in every layer of the fullest device."""
    total = sum(block.count * _token(block, deployment) for block in model.blocks)
    return total * largest_stage(model, deployment) / ways(deployment.cp)


def kv_bytes_of_sequence(model, deployment, context, encoded):
    """B of cache and states of one sequence on the fullest device; a window keeps its width."""
    split, whole = 0.0, 0.0
    for block in model.blocks:
        a, kind = block.attention, type(block.attention).__name__
        kept = context
        if kind == "Attention" and a.selection is None and a.window is not None:
            kept = np.minimum(context, a.window)
        split = split + block.count * kept * _token(block, deployment)
        if block.cross is not None:
            x = block.cross
            width = kv_heads_held(x, deployment.tp) * (x.head_dim + x.value_dim) * deployment.kv_bytes
            split = split + block.count * encoded * width
        if kind == "LinearAttention":
            whole = whole + block.count * sequence_state(a, deployment)
        if kind == "CompressedAttention":
            whole = whole + block.count * a.window * a.head_dim * deployment.kv_bytes
    return (split / ways(deployment.cp) + whole) * largest_stage(model, deployment)
