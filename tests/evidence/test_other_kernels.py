"""Kernels that an engine does not choose by default: which constants they have, and that these are nearer."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import hwspaces
from jaxroof.efficiency.grouped import published
from jaxroof.efficiency.prefill import published as published_prefill
from sweeps.measure.validate.kernel_errors import released
from tests.evidence.other_kernels import MAKERS, places, predicted, rows_of, times
from tests.evidence.refit import OTHERS

DATA = Path(__file__).parents[3] / "shared" / "measured"


def test_names_of_kernels_choose_the_constants():
    sglang = hwspaces.engine("sglang")
    assert sglang.constants_of("sglang_fused_moe_triton") == "learned-sglang-triton"
    assert sglang.constants_of("flash_attention") == sglang.efficiency
    assert released("sglang", "0.5.14", "triton").prefill_attention.wide.unskipped == 1.0
    assert released("sglang", "0.5.14", "flashinfer").prefill_attention.wide.unskipped is None
    assert released("sglang", "0.5.14").linear.scaled.packing_cycles == pytest.approx(2.243e4)


def test_every_named_efficiency_is_shipped_and_fitted():
    named = {name for engine in hwspaces.engine_names() for name in hwspaces.engine(engine).kernels.values()}
    assert named == {f"learned-{engine}-{maker}" for engine, maker in MAKERS}
    assert set(OTHERS) == set(MAKERS)
    for name in named:
        base = hwspaces.efficiency(name.rpartition("-")[0]).efficiency
        own = hwspaces.efficiency(name).efficiency
        assert own != base and own.linear == base.linear


def test_the_name_of_an_efficiency_must_be_text():
    tables = {"kernels": {"triton": 1}}
    text = dict.fromkeys(("title", "newest", "evidence", "efficiency"), "x")
    with pytest.raises(ValueError, match=r"kernels.triton = 1 must be the name of an efficiency"):
        hwspaces.engines.engine.entry("mine", {**text, **tables}, "1.0")


def test_factors_of_a_class_of_cores_begin_at_the_general_constants():
    kernel = dataclasses.replace(published(), tensor_memory={"matrix": 0.5})
    moved = times(kernel, {"tensor_memory.matrix": 0.5, "tensor_memory.launch_cycles": 2.0})
    assert moved.tensor_memory == {"matrix": 0.25, "launch_cycles": 2.0 * kernel.launch_cycles}
    assert moved.matrix == kernel.matrix


def test_shares_of_the_peak_move_by_class_of_cores():
    maker = MAKERS["sglang", "triton"]
    kernel = published_prefill()
    assert [one for one in places(kernel, maker, "prefill_attention.wide", {None}) if "matrix" in one] == [
        "synchronous.matrix"
    ]
    both = places(kernel, maker, "prefill_attention.wide", {None, "asynchronous"})
    assert {"synchronous.matrix", "asynchronous.matrix"} <= set(both)
    assert places(published(), maker, "experts.wide", {"tensor_memory"})[0] == "tensor_memory.matrix"


@pytest.mark.skipif(not (DATA / "kernels").is_dir(), reason="no measured data beside the checkout")
@pytest.mark.parametrize(("engine", "maker"), [("trtllm", "cutlass"), ("sglang", "cutlass")])
def test_their_constants_are_nearer_than_the_default_ones(engine, maker):
    base = hwspaces.efficiency(f"learned-{engine}").efficiency
    own = hwspaces.efficiency(f"learned-{engine}-{maker}").efficiency
    for rows in rows_of(DATA, engine, MAKERS[engine, maker], base):
        kind, _, name = rows.path.partition(".")
        near, far = (
            np.median(np.abs(np.log(predicted(rows, getattr(getattr(one, kind), name)) / rows.group.seconds)))
            for one in (own, base)
        )
        assert near < 0.7 * far
