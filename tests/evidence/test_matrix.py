"""Matrix by hand: pooled cells, coverage and width, the page, the dataset of rows, sources that end, a small run."""

import math
from pathlib import Path

import numpy as np
import pytest

from tests.evidence import figures, matrix, matrix_page, matrix_rows
from tests.evidence.figures import Cell, cells
from tests.evidence.matrix_rows.part import Left, Measured, Part

MEASURED = Path(__file__).parents[2].parent / "shared" / "measured"


def part(case="products", device="H100-SXM", fit="", errors=(0.1,), spread=math.nan, **labels):
    measured = np.full(len(errors), 2.0)
    predicted = measured * (1.0 + np.array(errors))
    return Part("kernels", case, device, "vllm", "0.24", fit, predicted, measured, spread, **labels)


def test_rows_are_pooled_by_label_and_fitted_ones_stand_apart():
    found = cells([part(errors=(0.1, -0.2)), part(errors=(0.3,), model="A"), part(errors=(0.01,), fit="learned_fit")])
    whole = Cell("kernels", "products", "", "H100-SXM", "vllm", "0.24")
    assert found.keys() == {whole, whole._replace(fit="learned_fit"), Cell("kernels", "products", "", model="A")}
    assert found[whole].rows == 3 and found[whole].mape == pytest.approx(20.0)
    assert found[whole].median == pytest.approx(20.0) and found[whole].signed == pytest.approx(10.0)
    assert math.isnan(found[whole].coverage) and math.isnan(found[whole].width)


def test_coverage_and_width_are_of_the_stated_interval():
    """ln 1.1 = 0.095 is within 1.645 x 0.1 and ln 1.3 = 0.262 is not; exp(0.1645) = 1.179 either way."""
    found = figures.figures([part(errors=(0.1, 0.3), spread=0.1), part(errors=(5.0,))])
    assert found.coverage == 50.0 and found.width == pytest.approx(1.179, abs=1e-3)


def test_the_page_has_both_sides_in_one_line():
    rows = [part(errors=(0.1,), spread=0.1), part(fit="f", errors=(-0.15, -0.15)), part(device="B200-SXM")]
    text = matrix_page.page(rows, [Left("no | price", 3)])
    one = f"| H100-SXM | vllm | 1 | {matrix_page.GREEN} | 10.0, 10.0 | +10.0 | 100 | 1.18 |"
    assert f"{one} 2 | {matrix_page.YELLOW} | 15.0, 15.0 | -15.0 | - | - |" in text
    assert "| no / price | 3 |" in text
    assert {line.count("|") for line in text.splitlines() if "vllm" in line} == {15}


def test_rows_come_back_from_the_dataset(tmp_path):
    parts = [part(errors=(0.1, 0.2), spread=0.3), part(device="B200-SXM", fit="f", errors=(-0.5,), date="2026-01-02")]
    matrix.dataset(parts, [Left("why", 2)]).to_netcdf(tmp_path / "rows.nc")
    with matrix.xr.open_dataset(tmp_path / "rows.nc") as found:
        back, left = matrix.parts_of(found)
    assert left == [Left("why", 2)]
    for before, now in zip(parts, back, strict=True):
        assert [getattr(now, name) for name in matrix.LABELS] == [getattr(before, name) for name in matrix.LABELS]
        np.testing.assert_allclose(now.predicted, before.predicted / before.measured, rtol=1e-6)
        np.testing.assert_array_equal(np.isnan(now.spread), np.isnan(np.broadcast_to(before.spread, len(now.spread))))


def test_a_source_that_ends_takes_nothing_else_with_it(monkeypatch, tmp_path):
    def ends(data):
        yield part()
        raise ValueError("its second row is broken")

    monkeypatch.setitem(matrix_rows.SOURCES, "ends", matrix_rows.Entry(ends))
    found = matrix.scored("ends", tmp_path, 0)
    assert len(found.parts) == 1 and found.left == [Left("ends ends: its second row is broken", 0)]


def test_a_sample_is_of_whole_deployments_and_stated():
    rows = [f"deployment {i // 3}" for i in range(300)]
    data = Measured(Path(), whole=False)
    kept = data.sample(rows, str, 2)
    assert all(rows.count(one) == kept.count(one) == 3 for one in kept) and 90 < len(kept) < 210
    assert sum(one.rows for one in data.left) == 300 - len(kept)
    assert Measured(Path()).sample(rows, str, 2) == rows


def test_a_folder_without_data_is_refused_in_one_line(tmp_path, capsys):
    assert matrix.main(["--data", str(tmp_path), "--only", "runs", "-o", str(tmp_path / "out.nc")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) >= 1 and not list(tmp_path.iterdir())


@pytest.mark.skipif(not (MEASURED / "serving2").is_dir(), reason="no measured serving2 folder")
def test_a_small_source_is_scored_checked_and_fails_where_it_is_worse(tmp_path, capsys):
    """Published training runs against their own figures, and against figures of which one is half as large."""
    rows = tmp_path / "rows.nc"
    assert matrix.main(["--data", str(MEASURED), "--only", "runs", "-o", str(rows)]) == 0
    with matrix.xr.open_dataset(rows) as found:
        now = cells(matrix.parts_of(found)[0])
    largest = max(now, key=lambda cell: now[cell].rows)
    for share, status in ((1.0, 0), (0.5, 1)):
        kept = now | {largest: now[largest]._replace(mape=share * now[largest].mape)}
        file = tmp_path / "figures.csv"
        file.write_text(figures.text_of(kept))
        assert matrix.main(["--from", str(rows), "--by", "device", "--check", str(file)]) == status
    said = capsys.readouterr().out
    assert "training runs" in said and "worse: fails" in said
