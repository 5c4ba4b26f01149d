"""Growth of errors outside of hulls: its formula by hand, the text of a file, and B200 against constants without it."""

import math
from pathlib import Path

import numpy as np
import pytest

import hwspaces
from hwspaces.performance.kernel_tables import hull_lines
from jaxroof.efficiency import Hull, Spread
from jaxroof.efficiency.hull import FittedRange
from tests.evidence.hull_fit import with_lines
from tests.evidence.hulls import Errors, LeftOut, errors_of, evidence, growth, measured

KERNELS = Path(__file__).parents[3] / "shared" / "measured" / "kernels"


def unseen(inside: float, spread: float, octaves: float, path: str = "linear.wide", loss: float = 1.0) -> LeftOut:
    """Ten thousand rows with normal errors."""
    n = 10_000
    logs = np.random.default_rng(0).normal(0.0, spread, n)
    errors = Errors(logs, np.full(n, octaves), np.ones(n), np.full(n, loss), np.zeros(n, bool))
    return LeftOut.of(path, "some", Spread(short=inside, long=inside), errors)


def test_growth_is_what_errors_gain_far_outside():
    """0.5^2 = 0.3^2 + 0.4^2 at a time that is all lost; one octave has 0.71 of that, half a loss half."""
    far = unseen(0.3, 0.5, 1e3)
    assert growth("linear.wide", [far]) == pytest.approx(0.4, rel=0.12)
    assert growth("linear.wide", [unseen(0.3, 0.5, 1.0)]) == pytest.approx(0.4 * math.sqrt(2.0), rel=0.12)
    assert growth("linear.wide", [unseen(0.3, 0.5, 1e3, loss=0.5)]) == pytest.approx(0.8, rel=0.12)
    assert far.errors.covered(far.inside, 0.0) < 0.7
    assert far.errors.covered(far.inside, 0.4) == pytest.approx(0.9, abs=0.02)


def test_other_classes_decide_where_a_class_has_no_architecture_of_its_own():
    near, far = unseen(0.3, 0.3, 1e3), unseen(0.3, 0.7, 1e3, "experts.wide")
    assert growth("linear.wide", [near, far]) < 0.2 < growth("linear.scaled", [far])
    assert growth("linear.scaled", [near, far]) < growth("experts.scaled", [near, far])


def test_rows_count_for_those_they_stand_for():
    half, short = np.full(2, 0.5), np.array([True, False])
    errors = Errors(np.array([0.1, 1.0]), np.array([0.0, 2.0]), np.array([95.0, 5.0]), half, short)
    assert errors.deviation() == pytest.approx(0.1 / 1.645) and errors.distance() == pytest.approx(0.1)


def test_lines_are_put_into_the_text_of_a_file_once():
    text = Path(hwspaces.__file__).parents[1].joinpath("hwspaces/efficiencies/learned-vllm.toml").read_text()
    hull = Hull(ranges=(FittedRange("cores", 1.0, 2.0),), growth=0.5)
    once = with_lines(text, "linear.wide", "hull.", hull_lines(hull))
    assert once == with_lines(once, "linear.wide", "hull.", hull_lines(hull)) and "hull.cores = [1, 2]" in once
    kept = [line for line in text.splitlines() if not line.startswith("hull.")]
    assert kept == [line for line in once.splitlines() if not line.startswith("hull.")]
    same = with_lines(text, "linear.wide", "spread", ["spread = { short = 0.2, long = 0.1 }"])
    assert same.count("\n") == text.count("\n") and "spread = { short = 0.2, long = 0.1 }" in same
    with pytest.raises(ValueError, match="linear.other"):
        with_lines(text, "linear.other", "hull.", hull_lines(hull))


@pytest.mark.skipif(not KERNELS.is_dir(), reason="the measured kernels are not beside the project")
def test_products_on_a_gpu_that_is_left_out():
    """B200 is 0.92 octaves from the others: 7737 FLOP per clock and core against 4096. Its rows are in its interval."""
    from sweeps.measure.kernel_data.gemm import gemm_groups

    efficiency = hwspaces.efficiency("learned-vllm").efficiency
    groups = [group for group in gemm_groups(KERNELS) if group.engine == "vllm" and group.precision == "bfloat16"]
    rows = [one for one in measured(groups, "vllm", efficiency) if one.path == "linear.wide"]
    here, others = ([one for one in rows if (one.group.device == "b200_sxm") == own] for own in (True, False))
    kernel = efficiency.linear.wide
    # The hull holds newer releases' rows too.
    ranges = {one.feature: one for one in kernel.hull.ranges}
    for one in evidence(rows, kernel.hull.growth).ranges:
        assert ranges[one.feature].low <= one.low and one.high <= ranges[one.feature].high
    left_out = errors_of(here, efficiency, evidence(others, kernel.hull.growth))
    assert left_out.distance() == pytest.approx(0.92, abs=0.02)
    assert errors_of(here, efficiency, kernel.hull).distance() == 0.0
    spread, grows = kernel.spread, kernel.hull.growth
    assert left_out.covered(spread, 0.0) > 0.8 and left_out.covered(spread, grows) > 0.88
    assert left_out.width(spread, grows) < 1.4
