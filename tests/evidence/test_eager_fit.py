"""Fit of eager fp32 kernels: the file that its command writes from a few invented rows."""

import pytest

import hwspaces
from jaxroof.op import KINDS
from tests.evidence.eager_fit import main
from tests.evidence.label_rows import FILE


def invented_rows(gpu):
    """Three products, and one sum of arrays that shows the bandwidth."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(
        {
            "op": ["bmm", "linear", "linear", "add"],
            "latency_us": [400.0, 900.0, 700.0, 2000.0],
            "gpu": gpu,
            "B": [16, 1, 1, 8192],
            "H": [0, 0, 0, 4096],
            "M": [512, 2048, 1000, None],
            "N": [64, 1024, 4096, None],
            "K": [512, 1024, 512, None],
        }
    )


def test_the_command_writes_a_file_with_an_entry_of_every_kind_it_prices(tmp_path):
    """Convolutions have none: products stand in for them. Every entry has the hull of both devices."""
    pandas = pytest.importorskip("pandas")
    (tmp_path / "other").mkdir()
    pandas.concat([invented_rows("Tesla_T4"), invented_rows("AMD_Instinct_MI100")]).to_parquet(
        tmp_path / "other" / FILE
    )
    assert main(["--data", str(tmp_path), "-o", str(tmp_path / "fit.toml")]) == 0
    fit = hwspaces.efficiency(str(tmp_path / "fit.toml"))
    priced = [kind for kind in KINDS if getattr(fit.efficiency, kind) is not None]
    assert priced == ["linear", "experts", "prefill_attention", "decode_attention", "elementwise"]
    hulls = [getattr(fit.efficiency, kind).wide.hull for kind in priced]
    cores = {one.feature: (one.low, one.high) for one in hulls[0].ranges}["cores"]
    assert cores == (40.0, 120.0) and all(hull.ranges == hulls[0].ranges for hull in hulls)
