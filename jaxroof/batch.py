"""Batch of one engine step, as the sums that its cost depends on: O(1) in the number of requests."""

import dataclasses
from typing import Any

from jaxroof.field import count, number
from jaxroof.struct import Scalar, struct
from jaxroof.tree import mapped


@struct
class Prefill:
    """New prompt tokens of one step."""

    sequences: Scalar = number("1", "prompts of the step")
    tokens: Scalar = number("1", "new prompt tokens", "summed over sequences")
    past: Scalar = number("1", "tokens in the cache before the step", "summed over sequences", zero=True)


@struct
class Decode:
    """Sequences that each add one token in one step, and verify the ones that a deployment drafts."""

    sequences: Scalar = number("1", "decoding sequences")
    context: Scalar = number("1", "tokens that are attended to", "the new one included, summed over sequences")


@struct
class Encode:
    """Images, sounds or texts that the encoder turns into vectors in one step."""

    sequences: Scalar = number("1", "inputs of the encoder")
    tokens: Scalar = number("1", "patches, frames or words", "summed over sequences")


def encoder_tokens_count() -> Any:
    """A workload's field: what the encoder works on per request; None: nothing."""
    return count("patches, frames or words per request that the encoder works on", default=None)


def encoder_inputs_count() -> Any:
    """A workload's field: parts of `encoder_tokens_count` that do not see one another; None: they are one."""
    about = "images, or tiles of them, that do not see one another; none: 1"
    return count("inputs of the encoder per request", about, default=None)


def encode(requests: Scalar, tokens: Scalar, inputs: Scalar | None = None) -> Encode:
    """The encoder's part of a step: requests of `tokens` tokens each, in `inputs` inputs each; None: in one."""
    return Encode(sequences=requests if inputs is None else requests * inputs, tokens=requests * tokens)


@struct
class Batch:
    """One engine step. A part that is None launches no kernels; costs of a mixed step are additive.

    Sequences of one part are taken to be alike: a window clips their mean length.
    """

    prefill: Prefill | None
    decode: Decode | None
    logits: Scalar = number("1", "sequences that sample a token", zero=True)
    encode: Encode | None = None
    encoded: Scalar = number(
        "1", "encoder outputs that every sequence attends to in cross-attention", zero=True, default=0.0
    )


def prefill(sequences: Scalar, tokens: Scalar, past: Scalar = 0.0) -> Batch:
    """A step of `sequences` prompts with `tokens` new tokens each, on top of `past` cached tokens each."""
    return Batch(
        prefill=Prefill(sequences=sequences, tokens=sequences * tokens, past=sequences * past),
        decode=None,
        logits=sequences,
    )


def decode(sequences: Scalar, context: Scalar) -> Batch:
    """A step in which `sequences` sequences of `context` tokens each (the new one included) add one token."""
    return Batch(prefill=None, decode=Decode(sequences=sequences, context=sequences * context), logits=sequences)


def mixed(prefill: Batch, decode: Batch) -> Batch:
    """One step with the prefill part of one batch and the decode part of another."""
    return dataclasses.replace(prefill, decode=decode.decode, logits=prefill.logits + decode.logits)


def divided(batch: Batch, ways: Scalar) -> Batch:
    """An even share of the sequences of a step: every sum over `ways`; `encoded` is per sequence and stays."""
    return dataclasses.replace(mapped(lambda total: total / ways, batch), encoded=batch.encoded)
