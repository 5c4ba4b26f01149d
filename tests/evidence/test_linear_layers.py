"""Kernels of linear attention, hyper-connections and encoders: meaning of rows, tables of constants, measured times."""

from pathlib import Path

import numpy as np
import pytest

import hwspaces
from sweeps.measure.validate.relative_errors import errors
from tests.evidence.class_tables import KINDS, OWN, carried, with_table
from tests.evidence.layer_rows import states_call, streams_call
from tests.evidence.linear_layers import scored, seconds, shared

MEASURED = Path(__file__).parents[3] / "shared" / "measured"

ENGINES = ("learned-vllm", "learned-trtllm", "learned-sglang")

ROW = {"batch_size": 4.0, "seq_len": 3.0, "d_conv": 4.0, "num_k_heads": 2.0, "head_k_dim": 128.0}
ROW |= {"num_v_heads": 8.0, "head_v_dim": 128.0}


def test_rows_of_states_are_the_kernels_that_layers_launch():
    channels, state = 2 * 2 * 128 + 8 * 128, 8 * 128 * 128 * 4
    (window,) = states_call("window", "context", 3, True)(ROW)
    # three launches of a third of the channels each, over prompts of 3 tokens and with windows of 3
    assert (window.count, float(window.shape.channels)) == (3.0, channels / 3)
    assert float(window.bytes) == pytest.approx(4 * (3 * 2 + 2 * 3) * channels / 3 * 2)
    (keys,) = states_call("keys", "context", 1, False)(ROW)
    assert float(keys.shape.channels) == 256.0
    # verification of three tokens: a state is read once and written three times, and L2 would have to hold it once
    (verified,) = states_call("states", "verify", 1, True)(ROW)
    rows = 4 * 3 * (2 * 2 * 128 + 2 * 8 * 128) * 2
    assert float(verified.bytes) == pytest.approx(4 * 4 * state + rows)
    assert float(verified.reuse_bytes) == pytest.approx(4 * state + rows)


def test_rows_of_streams_are_of_every_sublayer():
    row = {"num_tokens": 10.0, "num_sites": 2.0, "hc_mult": 4.0, "hidden_size": 4096.0, "sinkhorn_iters": 20.0}
    spread, mix = streams_call("both")(row)
    assert (spread.count, mix.count) == (2.0, 2.0)
    assert float(spread.bytes) == 10 * 9 * 4096 * 2


def test_tables_are_replaced_added_and_carried_over():
    text = '# one\n\n[elementwise.wide]\nmodel = "stream"\n\n[collective]\nlosses = 1\n'
    added = with_table(text, "elementwise.window", ["", "[elementwise.window]", "bandwidth = 0.5"])
    assert added.index("[elementwise.window]") < added.index("[collective]")
    changed = with_table(added, "elementwise.window", ["", "[elementwise.window]", "bandwidth = 0.7"])
    assert changed == added.replace("0.5", "0.7")
    assert carried(text, changed) == changed


@pytest.mark.parametrize("name", ENGINES)
def test_shipped_constants_say_where_they_are_from(name):
    entry = hwspaces.efficiency(name)
    found = [f"{kind}.{own}" for kind in KINDS for own in OWN if getattr(getattr(entry.efficiency, kind), own)]
    assert len(found) == (6 if name == "learned-trtllm" else 8)
    for path in found:
        assert "shapes left out" in entry.sources[f"{path}.bandwidth"], path
        assert entry.efficiency is not shared(entry.efficiency)


@pytest.mark.skipif(not (MEASURED / "kernels3").is_dir(), reason="the measured kernels are not beside the project")
@pytest.mark.parametrize(("name", "median", "mape"), [("kda", 13, 20), ("mamba2", 15, 18), ("mhc", 12, 17)])
def test_measured_shapes_that_no_fit_saw(name, median, mape):
    """Limits are a few points above the errors of the day in docs/evidence/layers_linear.md, as a release may add."""
    found = scored(MEASURED, name, rows=150)
    known = [one for one in found if one.group.device != "l40s" or name != "kda"]
    predicted, measured = (
        np.concatenate([values[one.unseen] for one, values in ((one, take(one)) for one in known)])
        for take in (lambda one: one.predicted, lambda one: one.group.seconds)
    )
    each = errors(predicted, measured)
    assert 100 * each.median < median and 100 * each.mape < mape, (name, each)
    # without constants of their own the same kernels were wrong by a multiple
    before = [seconds(one.group, shared(efficiency_of(one.group.engine)))[one.unseen] for one in known]
    assert errors(np.concatenate(before), measured).mape > each.mape


def efficiency_of(engine: str):
    return hwspaces.efficiency(f"learned-{engine}").efficiency
