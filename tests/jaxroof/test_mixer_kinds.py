"""A kind of mixer that nothing knows but its own file: one line of the registry is all that it takes."""

import dataclasses

import jax.numpy as jnp
import pytest

from jaxroof import Deployment, Training, datasheet, decode, prefill, step_time
from jaxroof.layers.attention import Attention
from jaxroof.layers.linear import Matrix, elementwise, projection
from jaxroof.layers.protocol import MixerKind
from jaxroof.layers.registry import MIXERS
from jaxroof.memory.capacity import kv_bytes_of_sequence, kv_bytes_per_token, parameter_count
from jaxroof.memory.legality import broken_rule
from jaxroof.model import WeightFormat
from jaxroof.numerics.struct import Scalar, struct
from jaxroof.training import iteration_cost, training_memory


@struct
class Averaging:
    """The running mean of a projection: a state of one vector per head."""

    heads: Scalar
    width: Scalar  # of one head
    weights: WeightFormat


def matrices(mixer, hidden, deployment):
    width = mixer.heads / deployment.tp * mixer.width
    return {
        "mean_in": Matrix(hidden, width, mixer.weights, reads_norm=True),
        "mean_out": Matrix(width, hidden, mixer.weights, to_residual=True),
    }


def ops(mixer, hidden, deployment, batch, tokens, count):
    first, last = matrices(mixer, hidden, deployment).values()
    size = deployment.activation_bytes
    found = projection("mean_in", tokens, first, size, count)
    found["mean"] = elementwise(
        tokens, reads=first.outputs, writes=first.outputs, element_bytes=size, flops=2.0 * first.outputs, count=count
    )
    return found | projection("mean_out", tokens, last, size, count)


def rules(mixer, deployment):
    yield jnp.asarray(mixer.width > 1.0), lambda: "a mean of single numbers"


AVERAGING = MixerKind(
    matrices=matrices,
    ops=ops,
    width=lambda mixer, deployment: 2.0 * mixer.heads / deployment.tp * mixer.width,
    fixed_bytes=lambda mixer, deployment: mixer.heads / deployment.tp * mixer.width * deployment.state_bytes,
    recurrent=True,
    rules=rules,
)


@pytest.fixture
def model(dense, bf16, monkeypatch):
    """The dense model with means in place of attention."""
    monkeypatch.setitem(MIXERS, Averaging, AVERAGING)
    mixer = Averaging(heads=8.0, width=100.0, weights=bf16)
    return dataclasses.replace(
        dense, blocks=tuple(dataclasses.replace(block, attention=mixer) for block in dense.blocks)
    )


def test_steps_memory_rules_and_training_know_it(chip, dense, model):
    deployment, layers = Deployment(tp=2.0), sum(block.count for block in model.blocks)
    assert all(isinstance(block.attention, Attention) for block in dense.blocks)
    for batch in (prefill(2.0, 100.0), decode(8.0, 300.0)):
        assert 0.0 < float(step_time(chip, model, deployment, batch, datasheet())) < 1.0
    # A state of 4 heads of 100 numbers in float32, whatever the context.
    assert float(kv_bytes_per_token(model, deployment)) == 0.0
    assert float(kv_bytes_of_sequence(model, deployment, 1000.0)) == float(layers * 4 * 100 * 4)
    assert float(parameter_count(model)) > 0.0
    assert broken_rule(chip, model, deployment) is None
    assert broken_rule(chip, model, Deployment(tp=3.0)) == "tp = 3 does not divide the 8 attention heads"
    flat = dataclasses.replace(model.blocks[0], attention=dataclasses.replace(model.blocks[0].attention, width=1.0))
    assert broken_rule(chip, dataclasses.replace(model, blocks=(flat,)), deployment) == "a mean of single numbers"
    training = Training(global_batch=8.0, seq=128.0)
    assert float(iteration_cost(chip, model, deployment, training, datasheet()).time) > 0.0
    assert float(training_memory(model, deployment, training).activations) > 0.0
