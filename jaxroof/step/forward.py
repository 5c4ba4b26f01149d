"""Weight-only execution: a model on hardware whose matrix units lack a precision that its weights are stored in."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from jaxroof.batch import Batch, divided
from jaxroof.deployment import (
    Deployment,
    degree,
    drafted_tokens,
    request_groups,
    splits_requests,
    stage_devices,
    tokens_per_sequence,
)
from jaxroof.deployment.speculation import draft_deployment, drafter, predictor
from jaxroof.hardware import Hardware
from jaxroof.layers.adapters import adapter_ops
from jaxroof.layers.block import block_ops, encoder_ops
from jaxroof.layers.collective import collective
from jaxroof.layers.embedding import FURTHER, PREFIX, embedding_ops, features_ops, head_ops, prediction_ops, sort_ops
from jaxroof.layers.hyper_connections import stream_ends
from jaxroof.layers.linear import LOW_PRECISIONS, launched, norm
from jaxroof.memory.paging import copy_ops
from jaxroof.model import Model, WeightFormat
from jaxroof.numerics.smooth import positive_part
from jaxroof.numerics.struct import Scalar, given
from jaxroof.op import Ops, in_layer


def as_run(model: Model, hardware: Hardware) -> Model:
    """The model as the hardware runs it: formats whose precision it lacks are multiplied in their `fallback`.

    Weights stay stored as they are, and the kernel converts them as it reads them; activations stay at 16 bits. A
    format without a fallback, or whose fallback the hardware lacks too, is left as it is: pricing it raises
    `ValueError`. Structure alone decides, so that it costs nothing under a trace; a model without such formats is
    returned itself.

    Source: Frantar et al., arXiv:2408.11743 (Marlin); vLLM and SGLang run FP8 and NVFP4 checkpoints by it on devices
    without these units: vllm-project/vllm#5975, sgl-project/sglang#19652.
    """
    precisions = frozenset(hardware.matrix)
    return _changed(model, lambda weights: _as_run(weights, precisions))


def converted_precisions(model: Model, hardware: Hardware) -> tuple[tuple[str, str], ...]:
    """Pairs of a precision that the hardware lacks and the one that stands in for it, in `model`; sorted."""
    pairs = {(one.compute, _as_run(one, frozenset(hardware.matrix)).compute) for one in formats_of(model)}
    return tuple(sorted(pair for pair in pairs if pair[0] != pair[1]))


def without_fallbacks(model: Model) -> Model:
    """The model with formats that need their precision: weights that are trained are not converted by a kernel."""
    return _changed(model, lambda weights: dataclasses.replace(weights, fallback=None) if weights.fallback else weights)


def formats_of(tree: Any) -> Iterator[WeightFormat]:
    """Every weight format in structs and tuples of them."""
    if isinstance(tree, WeightFormat):
        yield tree
    elif isinstance(tree, tuple):
        for item in tree:
            yield from formats_of(item)
    elif dataclasses.is_dataclass(tree):
        for field in dataclasses.fields(tree):
            yield from formats_of(getattr(tree, field.name))


def _as_run(weights: WeightFormat, precisions: frozenset[str]) -> WeightFormat:
    # Weight-only kernels (Marlin): weights stay narrow in memory, products run at the fallback's precision.
    if weights.compute in precisions or weights.fallback not in precisions:
        return weights
    # A format of 8 bits or less becomes one whose kernel converts weights; activations are not quantised any more.
    low = weights.compute in LOW_PRECISIONS
    return WeightFormat(
        bytes=weights.bytes,
        compute=str(weights.fallback),
        dequantised=weights.dequantised or low,
    )


def _changed(tree: Any, change: Callable[[WeightFormat], WeightFormat]) -> Any:
    """`tree` with every format in it changed; itself where none is."""
    if isinstance(tree, WeightFormat):
        return change(tree)
    if isinstance(tree, tuple):
        items = [_changed(item, change) for item in tree]
        # Identity is kept where nothing changes, so that callers and caches see the same struct.
        return tree if all(new is old for new, old in zip(items, tree, strict=True)) else tuple(items)
    if not dataclasses.is_dataclass(tree) or isinstance(tree, type):
        return tree
    changed = {}
    for field in dataclasses.fields(tree):
        old = getattr(tree, field.name)
        new = _changed(old, change)
        if new is not old:
            changed[field.name] = new
    return dataclasses.replace(tree, **changed) if changed else tree


# Ops of one engine step on one device: those of every layer, in order, by name.


class Rows(NamedTuple):
    """Tokens that go through every layer in one step, those of padded CUDA graphs included."""

    all: Scalar  # of all attention groups, as experts see them
    split: Scalar | None = None  # what of these a context-parallel device has: its part of prompts, all that decode

    @property
    def each(self) -> Scalar:
        """Those of all groups on one context-parallel device."""
        return self.all if self.split is None else self.split


def split_rows(rows: Scalar, batch: Batch, deployment: Deployment) -> Rows:
    """Rows of a step from those of all its devices: cp divides those of prompts."""
    if deployment.cp is None or batch.prefill is None:
        return Rows(rows)
    return Rows(rows, rows - batch.prefill.tokens * (1.0 - 1.0 / deployment.cp))


def step_ops(
    model: Model, deployment: Deployment, batch: Batch, rows: Rows | None = None, sampled: Scalar | None = None
) -> Ops:
    """Ops of one step on one device, in the order they first run; with pipeline stages, on one device after another.

    A mixed step is additive: its GEMMs see all tokens at once, then prefill attention, then decode attention.
    Layers of one block run `count` times. With several blocks, names carry the block's number: `1.qkv_proj`.

    Args:
      rows: tokens that go through every layer; None: those of the batch.
      sampled: rows of the output head; None: those that sample and those that are verified.
    """
    # Data-parallel attention: each group sees its own sequences, while experts see the tokens of all groups.
    local = group_batch(batch, deployment)
    if rows is None:
        tokens, group_tokens = device_tokens(local, deployment), stage_tokens(batch, deployment)
    else:
        # Padded CUDA graphs run rows that nobody asked for: GEMMs see them, attention does not.
        tokens, group_tokens = rows.each / request_groups(deployment), rows.all
    ops: Ops = {}
    if local.encode is not None and model.encoder is not None:
        ops |= encoder_ops(model.encoder, deployment, local.encode)
    # First and last stage's ops stand in every step: with stages the step is one micro-batch's whole way.
    ops |= embedding_ops(model, deployment, tokens)
    if model.features is not None:
        ops |= features_ops(model, deployment, tokens)
    ops |= layer_ops(model, deployment, local, tokens, group_tokens)
    streams = model.blocks[0].streams if model.blocks else None
    if streams is not None:
        ops |= stream_ends(streams, tokens, model.hidden, deployment)
    if deployment.pp is not None:
        # Activations of a boundary between two stages, once per stage but the last.
        message = tokens * model.hidden * deployment.communication_bytes
        ops["stage_send"] = collective(
            "send_recv", message, 2.0, deployment.pp - 1.0, stage_devices(deployment), parallelism="pp", role="stage"
        )
    ops["final_norm"] = norm(tokens, model.hidden, deployment.activation_bytes, 1.0)
    ops |= copy_ops(model, deployment, local)
    if not model.generates:
        return ops
    # Only rows that sample pass the head; of speculative decoding all drafted tokens too, as each is verified.
    sampled = head_rows(local, deployment) if sampled is None else sampled
    ops |= head_ops(model, deployment, sampled)
    if deployment.sampler == "sort":
        ops |= sort_ops(model, sampled)
    draft = drafter(model, deployment)
    if draft is not None:
        ops |= draft_ops(draft, deployment, batch)
    elif predictor(model, deployment) is not None:
        ops |= prediction_ops(model, deployment, local, tokens, group_tokens)
    return ops


def layer_ops(model: Model, deployment: Deployment, local: Batch, tokens: Scalar, group_tokens: Scalar) -> Ops:
    """Ops of all layers of the decoder in the order they first run; with several blocks, names carry its number.

    Args:
      local: the part of the step that one attention group works on.
      tokens: of the group on this device.
      group_tokens: of all groups that share experts.
    """
    ops: Ops = {}
    for index, block in enumerate(model.blocks):
        prefix = f"{index}." if len(model.blocks) > 1 else ""
        layer = block_ops(block, model.hidden, deployment, local, tokens, group_tokens)
        layer |= adapter_ops(block, model.hidden, deployment, local, tokens)
        ops |= in_layer(layer, prefix)
    return ops


def draft_ops(draft: Model, deployment: Deployment, batch: Batch) -> Ops:
    """Ops of a draft model beside a step of the model that it drafts for, on the same devices in the same layout.

    It works on the prompts once, without sampling, and `deployment.drafts` times on the newest tokens of every
    decoding sequence; of a tree, each run works on the mean of its depths. The run that catches up with a token that
    was added after all drafts were right is left out.
    """
    if draft.features is not None:
        return feature_ops(draft, deployment, batch)
    ops: Ops = {}
    # Of a prompt the draft only needs its cache.
    if batch.prefill is not None:
        prompt = dataclasses.replace(batch, decode=None, logits=0.0)
        run_ops = step_ops(draft, draft_deployment(deployment), prompt)
        ops |= in_layer(run_ops, PREFIX)
    if batch.decode is not None:
        newest = Batch(prefill=None, decode=batch.decode, logits=batch.decode.sequences, encoded=batch.encoded)
        # Autoregressive drafting: one run per draft, each on the newest token of every sequence.
        run_ops = step_ops(draft, draft_deployment(deployment), newest)
        ops |= _times(run_ops, deployment.drafts, FURTHER)
    return ops


def feature_ops(draft: Model, deployment: Deployment, batch: Batch) -> Ops:
    """Ops of a draft that reads the hidden states of the model that it drafts for, beside a step of that model.

    Its first run works on all tokens of the step, whose hidden states it takes in; every further draft is a run over
    the newest token of every sequence, with the draft's own hidden state.

    Source: Li et al., arXiv:2503.01840 (EAGLE-3), section 3; vLLM runs it so (vllm/v1/spec_decode/eagle.py).
    """
    # EAGLE: the draft's first run reads the target's hidden states of all tokens, so its cache stays complete.
    first = dataclasses.replace(draft_deployment(deployment), drafts=deployment.drafts, tree=deployment.tree)
    sampled = batch.logits / request_groups(deployment)
    drafts, features = given(deployment.drafts, "number of drafts"), given(draft.features, "features of the draft")
    ops = _times(step_ops(draft, first, batch, sampled=sampled), launched(drafts), PREFIX)
    if batch.decode is None:
        return ops
    # Further drafts have no hidden states of the target yet and take the draft's own.
    single = draft if features.every_run else dataclasses.replace(draft, features=None)
    newest = Batch(prefill=None, decode=batch.decode, logits=batch.decode.sequences)
    run_ops = step_ops(single, draft_deployment(deployment), newest)
    return ops | _times(run_ops, positive_part(drafts - 1.0), FURTHER)


def _times(ops: Ops, runs: Scalar, prefix: str) -> Ops:
    """Ops of a layer that runs so often."""
    return in_layer({name: dataclasses.replace(op, count=op.count * runs) for name, op in ops.items()}, prefix)


def group_batch(batch: Batch, deployment: Deployment) -> Batch:
    """The part of a step that one attention group works on: an even share of its sequences."""
    return divided(batch, request_groups(deployment)) if splits_requests(deployment) else batch


def device_tokens(local: Batch, deployment: Deployment) -> Scalar:
    """Tokens of one group that go through every layer on one device: prompts are split over cp, decoding ones not."""
    # Context parallelism splits prompts; a decoding sequence has too few tokens to split.
    prefill = 0.0 if local.prefill is None else local.prefill.tokens / degree(deployment.cp)
    decode = 0.0 if local.decode is None else local.decode.sequences * tokens_per_sequence(deployment)
    return prefill + decode


def stage_tokens(batch: Batch, deployment: Deployment) -> Scalar:
    """Tokens of all groups in one step."""
    prefill = 0.0 if batch.prefill is None else batch.prefill.tokens
    decode = 0.0 if batch.decode is None else batch.decode.sequences * tokens_per_sequence(deployment)
    return prefill + decode


def head_rows(local: Batch, deployment: Deployment) -> Scalar:
    """Rows of the output head: one per sequence that samples, and one per drafted token that is verified."""
    if deployment.drafts is None or local.decode is None:
        return local.logits
    # Verification takes the target's distribution at every drafted position, hence a row of logits each.
    return local.logits + local.decode.sequences * drafted_tokens(deployment)
