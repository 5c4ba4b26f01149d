"""Growth of errors outside of hulls: its formula by hand, the text of a file, and B200 against constants without it."""

import math
from pathlib import Path

import numpy as np
import pytest

import hwspaces
from jaxroof.efficiency import Hull
from jaxroof.efficiency.hull import FittedRange
from tests.evidence.hull_fit import with_hull
from tests.evidence.hulls import Errors, LeftOut, errors_of, evidence, growth, measured

KERNELS = Path(__file__).parents[3] / "shared" / "measured" / "kernels"


def left_out(inside: float, spread: float, octaves: float) -> LeftOut:
    """A thousand rows with normal errors."""
    logs = np.random.default_rng(0).normal(0.0, spread, 100_000)
    return LeftOut("some", inside, Errors(logs, np.full(100_000, octaves), np.ones(100_000)))


def test_growth_is_what_errors_gain_per_octave():
    """0.5^2 = 0.3^2 + (0.2 x 2)^2; with an architecture whose errors do not grow, the mean of the squares."""
    far = left_out(0.3, 0.5, 2.0)
    assert growth([far]) == pytest.approx(0.2, rel=0.02)
    assert growth([far, left_out(0.3, 0.3, 1.0)]) == pytest.approx(0.2 / math.sqrt(2.0), rel=0.03)
    assert growth([left_out(0.1, 0.5, 0.1)]) == 0.0  # too near to say
    assert far.errors.covered(0.3, 0.0) < 0.7
    assert far.errors.covered(0.3, growth([far])) == pytest.approx(0.9, abs=0.01)


def test_rows_count_for_those_they_stand_for():
    errors = Errors(np.array([0.1, 1.0]), np.array([0.0, 2.0]), np.array([95.0, 5.0]))
    assert errors.deviation() == pytest.approx(0.1 / 1.645) and errors.distance() == pytest.approx(0.1)


def test_a_hull_is_put_into_the_text_of_a_file_once():
    text = Path(hwspaces.__file__).parents[1].joinpath("hwspaces/efficiencies/learned-vllm.toml").read_text()
    hull = Hull(ranges=(FittedRange("cores", 1.0, 2.0),), growth=0.5)
    once = with_hull(text, "linear.wide", hull)
    assert once == with_hull(once, "linear.wide", hull) and "hull.cores = [1, 2]" in once
    kept = [line for line in text.splitlines() if not line.startswith("hull.")]
    assert kept == [line for line in once.splitlines() if not line.startswith("hull.")]
    with pytest.raises(ValueError, match="linear.other"):
        with_hull(text, "linear.other", hull)


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
    spread = float(kernel.spread.long)
    assert left_out.covered(spread, 0.0) > 0.86 and left_out.covered(spread, kernel.hull.growth) > 0.89
