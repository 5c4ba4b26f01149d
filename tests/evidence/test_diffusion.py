"""Tokens and FLOP of diffusion transformers by hand, and errors on the published rows."""

from pathlib import Path

import numpy as np
import pytest

from tests.evidence.diffusion import Generated, main, predicted, with_factors
from tests.evidence.engine_constants import engine_efficiencies

DATA = Path(__file__).parents[2] / ".." / "shared" / "measured"
needs_data = pytest.mark.skipif(
    not (DATA / "serving2" / "mlenergy_diffusion.csv").exists(), reason="measured tables are not here"
)


def row(model: str, samples: float = 1.0) -> Generated:
    return Generated("H100-SXM", model, 1.0, samples, steps=50.0, seconds=1.0, watts=700.0, joules=700.0)


def flops(model: str, samples: float = 1.0) -> float:
    ops, _, _ = row(model, samples).ops()
    each = [(op.count, getattr(op, "matrix_flops", None)) for op in ops.values()]
    return sum(float(count * found) for count, found in each if found is not None)


def test_matrix_flops_of_one_step_of_flux():
    """57 layers, 4608 tokens: 2 x 12 x 3072^2 FLOP each, and 4 x 4608 x 3072 of attention."""
    layer = 4608 * (24 * 3072**2 + 4 * 4608 * 3072)
    assert flops("FLUX.1-dev") == pytest.approx(57 * layer, rel=1e-3)


def test_matrix_flops_of_one_step_of_wan():
    """30 layers, guided: 2 x 32,760 tokens; self-attention, queries and output of cross-attention, feed-forward; keys
    and values of 2 x 512 tokens of text."""
    tokens, width = 32_760, 1536
    layer = tokens * (2 * 6 * width**2 + 4 * width * 8960 + 4 * (tokens + 512) * width) + 512 * 4 * width**2
    assert flops("Wan2.1-T2V-1.3B-Diffusers") == pytest.approx(2 * 30 * layer, rel=1e-3)
    assert flops("Wan2.1-T2V-1.3B-Diffusers", 2.0) == pytest.approx(4 * 30 * layer, rel=1e-3)


@needs_data
def test_one_factor_explains_latency_of_other_models():
    """PyTorch takes about twice our time; the factor of the other models leaves 13 % in the median of all rows."""
    found = with_factors(predicted(DATA, engine_efficiencies(None)["vllm"]))
    assert len(found) > 400
    assert all(one.seconds < one.row.seconds for one in found)
    left = [abs(one.factor * one.seconds / one.row.seconds - 1.0) for one in found]
    assert np.median(left) < 0.2


def test_a_folder_without_rows_is_one_line(tmp_path, capsys):
    assert main(["--data", str(tmp_path)]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
