"""The refit of what links lose: on rows made from known constants, and on the public tables where they are at hand."""

import csv
import pathlib
import tomllib

import numpy as np
import pytest

import hwspaces
from sweeps.measure.validate.collective_errors import times
from sweeps.measure.validate.collective_rows import TABLE_COLUMNS, collectives
from tests.evidence import link_fit
from tests.evidence.link_fit import fit, fittable, held_out, main, scored, toml

TABLES = pathlib.Path(__file__).parents[2].parent / "shared" / "measured"

FIELDS = (*TABLE_COLUMNS, "version")


def written(path, rows):
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    return path


def asked(gpu="h100_sxm", backend="nccl", op="all_reduce", dtype="int8", mode="stream", latency=1.0):
    """Rows of 2, 4 and 8 devices and 512 B to 512 MB, without times."""
    for devices in (2, 4, 8):
        for size in (2**k for k in range(9, 30, 2)):
            yield dict(zip(FIELDS, (gpu, backend, op, dtype, devices, size, latency, mode, ""), strict=True))


@pytest.fixture
def made(tmp_path):
    """All-reduces on rings as the model has them, with constants that are not the catalogue's."""
    rows = list(asked())
    read = collectives(written(tmp_path / "asked.csv", rows))[0]
    constants = {"NVLink.latency": 1.2e-6, "NVLink.bulk.share": 0.8, "NVLink.low_latency.fixed_time": 7e-6}
    seconds = np.array([each.predicted for each in scored(read, constants)])
    rows = [row | {"latency_us": 1e6 * time} for row, time in zip(rows, seconds, strict=True)]
    return written(tmp_path / "made.csv", rows)


def test_known_constants_are_found(made):
    rows = fittable(collectives(made)[0])
    assert len(rows) == 33 and sum(held_out(rows)) == 11 + 2 * 3  # groups of four; every third of 11 sizes
    found = fit(rows)
    # the weak priors pull by a hundredth of a standard deviation; three protocols share what two could do
    assert found["NVLink.latency"] == pytest.approx(1.2e-6, rel=0.05)
    assert found["NVLink.bulk.share"] == pytest.approx(0.8, rel=0.05)
    error = [abs(each.predicted / each.row.seconds - 1.0) for each in scored(rows, found)]
    assert max(error) < 0.1 and np.mean(error) < 0.02
    tables = tomllib.loads(toml(found))["link"]
    assert set(tables) == {"NVLink"}
    assert tables["NVLink"]["latency_us"] == pytest.approx(1e6 * found["NVLink.latency"], rel=1e-2)


def test_host_time_and_other_devices_are_left_out(tmp_path):
    rows = [row for mode, gpu in (("eager", "h100_sxm"), ("cudagraph", "gb200")) for row in asked(gpu, mode=mode)]
    path = written(tmp_path / "rows.csv", rows)
    assert fittable(collectives(path)[0]) == []
    assert main(["--data", str(path)]) == 2


def test_the_command_prints_one_line_for_bad_input(tmp_path, capsys):
    assert main(["--data", str(tmp_path / "none.csv")]) == 2
    assert capsys.readouterr().err.strip() == f"link_fit: {tmp_path / 'none.csv'}: no such file"


def test_every_fitted_constant_stands_in_the_catalogue():
    """The tables of the fit are those of links.toml, so that what is printed can be copied."""
    text = pathlib.Path(hwspaces.__file__).with_name("technology").joinpath("links.toml").read_text()
    shipped = tomllib.loads(text)["link"]
    for table, leaves in link_fit.TABLES.items():
        for leaf in leaves:
            inner, _, field = leaf.rpartition(".")
            keys = shipped[table][inner] if inner else shipped[table]
            assert any(key.startswith(field) for key in keys), f"{table}.{leaf}"


@pytest.mark.skipif(not TABLES.is_dir(), reason="the measured collectives are not beside the project")
def test_the_catalogue_is_the_optimum_of_the_public_tables():
    """Where the fit stopped, no single constant of H100 can move by 15 % without a larger error."""
    rows = [row for row in fittable(collectives(TABLES / "kernels" / "aic_comm.csv")[0]) if row.device == "H100-SXM"]
    predicted = times(rows)
    measured = np.array([row.seconds for row in rows])

    def cost(values):
        ratio = np.log(np.asarray(predicted(link_fit._replacement(rows, values), 1.0)) / measured)
        return float(np.mean(np.sqrt(1.0 + (ratio / (2.0 * link_fit.SPREAD)) ** 2)))

    link = hwspaces.hardware("H100-SXM").hardware.links.scale_up
    best = cost({})
    for leaf, value in (("latency", link.latency), ("bulk.share", link.transport.bulk.share)):
        for factor in (0.85, 1.15):
            assert cost({f"NVLink.{leaf}": factor * value}) > best, (leaf, factor)
