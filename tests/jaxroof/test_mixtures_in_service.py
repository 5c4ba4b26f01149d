"""Mixtures of experts with latent attention under load: random deployments, no cache at all, ranks without tokens."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from jaxroof.batch import STATUSES, Batch, Decode, Policy, Prefill, Traffic
from jaxroof.jobs.serve import LATENCIES, Objective, serving_metrics
from jaxroof.scheduler import Size, cache_blocks, simulate
from jaxroof.step.step import step_time
from sweeps.run.precision import precision
from tests.structures import points
from tests.uncompiled import uncompiled

REQUESTS, POINTS = 5, 12
SIZE = Size(slots=4, iterations=40, rows=128, context=128)
MEMORY = np.array([0.0, 1e10, 1e14, 1e15] * 3)
"""B of every device: too little for the weights, or more than any random model needs."""


def in_service():
    """Random hardware, models, deployments and efficiencies without drafts, of 1, 2 or 8 attention groups."""
    drawn = points("latent_drafts", POINTS, seed=11)
    groups = np.array([1.0, 2.0, 8.0] * 4)
    deployment = dataclasses.replace(drawn.deployment, drafts=None, attention_dp=groups, ep=groups, overlap="none")
    return drawn.hardware, drawn.model, deployment, drawn.efficiency


def test_every_answer_has_finite_times():
    """Five requests to one engine of 1, 2 or 8 attention groups, most of which then have no token in a step."""
    hardware, model, deployment, efficiency = in_service()
    hbm = dataclasses.replace(hardware.memory.hbm, capacity=MEMORY)
    hardware = dataclasses.replace(hardware, memory=dataclasses.replace(hardware.memory, hbm=hbm))
    traffic = Traffic(
        arrival=np.zeros(REQUESTS), isl=np.array([1.0, 7.0, 64.0, 30.0, 5.0]), osl=np.array([1.0, 2.0, 3.0, 20.0, 6.0])
    )

    def one(*place):
        policy = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), Policy(max_sequences=4.0, token_budget=64.0))
        found, timeline = simulate(*place, jax.tree.map(jnp.asarray, traffic), policy, SIZE)
        blocks = cache_blocks(*place[:3], policy)
        return found, timeline, serving_metrics(found, timeline, traffic, blocks, Objective())

    with precision("float64"):
        found, timeline, metrics = jax.jit(jax.vmap(one))(hardware, model, deployment, efficiency)
    done = np.asarray(found.status) == STATUSES.index("finished")
    refused = np.asarray(found.status) == STATUSES.index("refused")
    assert np.all(done | refused) and done.any() and refused.any()
    for name in ("admitted", "first_token", "finish"):
        assert np.isfinite(np.asarray(getattr(found, name))[done]).all()
    assert np.isfinite(timeline.duration).all() and np.isfinite(timeline.end).all()
    for name, values in metrics.items():
        known = done.any(axis=1) if name.startswith(tuple(LATENCIES)) else np.full(POINTS, True)
        assert np.isfinite(np.asarray(values)[known]).all(), name


def test_a_step_of_ranks_without_tokens_is_finite_in_value_and_gradient():
    hardware, model, deployment, efficiency = in_service()
    loads = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 300.0]])

    def time(place, load):
        prompts, tokens, sequences, context = load
        batch = Batch(
            prefill=Prefill(sequences=prompts, tokens=tokens, past=0.0),
            decode=Decode(sequences=sequences, context=context),
            logits=prompts + sequences,
        )
        return step_time(*place[:3], batch, place[3])

    with precision("float64"):
        every = jax.vmap(jax.vmap(jax.value_and_grad(time), in_axes=(None, 0)), in_axes=(0, None))
        value, gradient = uncompiled(every)((hardware, model, deployment, efficiency), loads)
    assert np.isfinite(value).all() and np.all(np.asarray(value)[:, 1:] > 0.0)
    slopes = jax.tree_util.tree_flatten_with_path(gradient)[0]
    assert [jax.tree_util.keystr(path) for path, slope in slopes if not np.isfinite(slope).all()] == []
