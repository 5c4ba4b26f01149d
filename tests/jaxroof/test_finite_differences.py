"""Gradients against finite differences in log space, leaf by leaf."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxroof import request_cost, step_time
from jaxroof.numerics import smooth
from tests.points import Points, dotted
from tests.structures import points
from tests.uncompiled import uncompiled

STEP = 1e-5
"""Of the logarithm in a central difference: its error, STEP^2, and rounding, 1e-16 / STEP, are about 1e-11 each."""

ROWS = 400
"""No fewer than there are leaves: columns are of one length, for which an operation is compiled once."""


def log_step_time(drawn: tuple) -> jax.Array:
    return jnp.log(step_time(*drawn))


def log_e2e(drawn: tuple) -> jax.Array:
    """TTFT and TPOT in one number."""
    return jnp.log(request_cost(*drawn).e2e)


def off_the_kinks(drawn: Points) -> Points:
    """`drawn` at numbers where no count meets the limit of its formula, such as tp = kv_heads or one output token.

    There the cost has one slope to the left and another to the right, and no central difference is right. Numbers
    that are 0 have no logarithm.
    """

    def more(part):
        values = {} if part is None else {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        known = {name: value for name, value in values.items() if value is not None}
        return part and dataclasses.replace(part, **{name: 3.3 * value + 7.0 for name, value in known.items()})

    def held(mixer):
        """A mixer of which every device has more than one head."""
        name = next((name for name in ("kv_heads", "key_heads") if hasattr(mixer, name)), None)
        return mixer if name is None else dataclasses.replace(mixer, **{name: getattr(mixer, name) + 11.0})

    def moved(blocks):
        return tuple(
            dataclasses.replace(block, attention=held(block.attention), cross=held(block.cross)) for block in blocks
        )

    def apart(link):
        """A link that no group reaches the limits of with a whole number of devices."""
        if link is None or link.transport is None:
            return link
        return dataclasses.replace(
            link, transport=dataclasses.replace(link.transport, peers=link.transport.peers + 0.6)
        )

    links = drawn.hardware.links
    links = dataclasses.replace(links, scale_up=apart(links.scale_up), scale_out=apart(links.scale_out))
    old, model, batch = drawn.requests, drawn.model, drawn.batch
    encoder = model.encoder and dataclasses.replace(model.encoder, blocks=moved(model.encoder.blocks))
    degrees = {"tp": 5.0, "cp": 3.0, "attention_dp": 2.5, "ep": 7.0, "pp": 3.0, "drafts": 3.3}
    given = {name: value for name, value in degrees.items() if getattr(drawn.deployment, name) is not None}
    return dataclasses.replace(
        drawn,
        hardware=dataclasses.replace(drawn.hardware, links=links),
        model=dataclasses.replace(model, blocks=moved(model.blocks), untied=model.untied + 1.0, encoder=encoder),
        deployment=dataclasses.replace(
            drawn.deployment,
            **{name: np.full_like(drawn.deployment.tp, value) for name, value in given.items()},
        ),
        batch=dataclasses.replace(
            batch, prefill=more(batch.prefill), decode=more(batch.decode), encode=more(batch.encode)
        ),
        requests=dataclasses.replace(old, batch=old.batch + 2.0, osl=old.osl + 5.0, cached=0.3 * old.isl),
    )


def elasticities(function, tree: tuple) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """d ln y / d ln x of every leaf by path, y = exp(function): automatic and central differences, shapes (points,)."""
    slopes = uncompiled(jax.vmap(jax.grad(function)))(tree)
    paths, leaves = zip(*jax.tree_util.tree_flatten_with_path(tree)[0], strict=True)
    points = len(leaves[0])
    assert len(leaves) <= ROWS
    values = uncompiled(jax.vmap(function))

    def moved(sign: float) -> np.ndarray:
        """Values with one leaf after the other moved by STEP, then as they are, shape (ROWS, points)."""
        rows = [np.tile(leaf, (ROWS, 1)) for leaf in leaves]
        for i, row in enumerate(rows):
            row[i] *= np.exp(sign * STEP)
        flat = jax.tree.structure(tree).unflatten([row.ravel() for row in rows])
        return np.asarray(values(flat)).reshape(ROWS, points)

    central = (moved(1.0) - moved(-1.0)) / (2 * STEP)
    automatic = [np.asarray(slope) * leaf for slope, leaf in zip(jax.tree.leaves(slopes), leaves, strict=True)]
    return {dotted(path): (automatic[i], central[i]) for i, path in enumerate(paths)}


@pytest.fixture(scope="module", autouse=True)
def sharp():
    """`maximum` all but exact in this module; what was traced before it, and in it, is not used beyond."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(smooth, "SHARPNESS", 1e6)
        jax.clear_caches()
        yield
    jax.clear_caches()


@pytest.mark.parametrize(
    ("structure", "function"),
    [
        ("dense_multi_head", log_e2e),
        ("sliding_fp8", log_step_time),
        ("chunked_experts", log_step_time),
        ("hybrid_decay", log_step_time),
    ],
)
def test_against_finite_differences(structure, function, float64):
    """Every leaf of hardware, model, deployment, batch or requests, and efficiency, at 20 random points.

    The smoothing of `maximum` is narrowed for it, so that it does not blur the formulas behind it: at an
    exponent of a million a term 0.01 % below the largest has e^-100 of the weight. 1e-6: `STEP` says which errors
    there are, and the exponent multiplies the rounding of a term by a million where two are that close.
    """
    drawn = off_the_kinks(points(structure, 20, seed=1))
    found = elasticities(function, drawn.request if function is log_e2e else drawn.step)
    off = {path: np.abs(automatic - central).max() for path, (automatic, central) in found.items()}
    assert {path: error for path, error in off.items() if not error < 1e-6} == {}
    assert sum(np.abs(automatic).max() > 0 for automatic, _ in found.values()) > 40  # most leaves matter somewhere
