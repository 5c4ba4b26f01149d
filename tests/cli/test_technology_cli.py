"""`jaxroof hardware --technology`: kinds, names and counts; every constant as JSON."""

import json

import pytest

from sweeps.cli import main


def test_names_and_the_line_of_counts(capsys):
    assert main(["hardware", "--technology", "-v"]) in (0, None)
    out = capsys.readouterr().out
    assert "CoWoS-S-2023" in out and "UCIe-advanced" in out
    counts = [int(word) for word in out.strip().splitlines()[-1].split() if word.isdigit()]
    assert out.strip().splitlines()[-1] == f"technology: {counts[0]} constants, {counts[1]} of them assumptions"
    assert 0 < counts[1] < counts[0]


def test_every_constant_as_json(capsys):
    assert main(["hardware", "--technology", "--json"]) in (0, None)
    found = json.loads(capsys.readouterr().out)
    assert found["voltage"]["N5"]["nominal"]["value"] == 0.75
    assert found["stack"]["HBM3"]["phy_edge"]["assumed"] is True
    assert found["energy.memory"]["HBM3e"]["moved"]["unit"] == "J/B"


def test_a_name_beside_it_is_refused(capsys):
    with pytest.raises(SystemExit) as end:
        raise SystemExit(main(["hardware", "--technology", "H100-SXM"]))
    assert end.value.code == 2 and "--technology takes no name" in capsys.readouterr().err
