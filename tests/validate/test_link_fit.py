"""The refit of link latencies: on rows made from known constants, and on the public table where it is at hand."""

import csv
import pathlib

import pytest

import hwspaces
from sweeps.validate.link_fit import COLUMNS, engine_all_reduces, fitted, main

TABLE = pathlib.Path(__file__).parents[2].parent / "shared" / "measured" / "kernels" / "aic_comm.csv"


def made_rows(fixed: float, latency: float, share: float) -> list[dict[str, str]]:
    """All-reduces on H100 by the ring formula, in the file's units."""
    table = []
    for devices in (2, 4, 8):
        for message in (2**k for k in range(8, 31)):
            seconds = fixed + 2 * (devices - 1) * (latency + message / (devices * 450e9 * share))
            values = ("h100_sxm", "x_custom", "all_reduce", "half", devices, message, 1e6 * seconds, "cudagraph")
            table.append(dict(zip(COLUMNS, map(str, values), strict=True)))
    return table


def test_known_constants_are_found():
    fit = fitted(engine_all_reduces(made_rows(4e-6, 3e-7, 0.7)), "made")
    # exact data: the search stops at its default tolerance of 1e-8 in the cost
    assert (fit.fixed, fit.latency, fit.share) == pytest.approx((4e-6, 3e-7, 0.7), rel=1e-3)
    assert fit.errors.mape < 1e-3


def test_other_collectives_are_left_out():
    (row, *_) = made_rows(4e-6, 3e-7, 0.7)
    for change in ({"op_name": "all_gather"}, {"mode": "eager"}, {"backend": "nccl"}, {"dtype": "float32"}):
        assert engine_all_reduces([row | change]) == []


def test_the_command_prints_a_line_per_technology(tmp_path, capsys):
    path = tmp_path / "rows.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(made_rows(4e-6, 3e-7, 0.7))
    assert main(["--data", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "NVLink: 69 rows of h100_sxm: latency 0.30 us per hop" in printed and "PCIe: no rows" in printed
    assert main(["--data", str(tmp_path / "none.csv")]) == 2
    assert capsys.readouterr().err.strip() == f"{tmp_path / 'none.csv'}: no such file"


def test_an_empty_cell_is_named():
    (row, *_) = made_rows(4e-6, 3e-7, 0.7)
    with pytest.raises(ValueError, match="^rows.csv: latency_us is empty$"):
        fitted([row | {"latency_us": ""}], "rows.csv")


@pytest.mark.skipif(not TABLE.exists(), reason="the measured collectives are not beside the project")
def test_the_catalogue_holds_what_the_public_table_gives(capsys):
    assert main(["--data", str(TABLE)]) == 0
    printed = capsys.readouterr().out
    for technology, name in (("NVLink", "H100-SXM"), ("PCIe", "L40S")):
        latency = 1e6 * hwspaces.hardware(name).hardware.links.scale_up.latency
        line = next(line for line in printed.splitlines() if line.startswith(technology))
        assert f"latency {latency:.2f} us" in line
