"""Times before the queue: a device is judged by the values that are best on the others."""

import pytest

from tests.evidence.first_token import Row, Try, _changed, left_out, main
from tests.evidence.test_inferencex_points import row, written


def test_a_device_is_judged_by_the_others():
    few, many = Try(0.0, 0.01), Try(1.0, 0.02)
    scores = {few: {"A": 0.1, "B": 0.3, "C": 0.2}, many: {"A": 0.5, "B": 0.1, "C": 0.1}}
    found = left_out(scores)
    # without A many is better (0.1 against 0.25), without B few (0.15 against 0.3), without C few (0.2 against 0.3)
    assert found == {"A": (many, 0.5), "B": (few, 0.3), "C": (few, 0.2)}


def test_values_stand_in_the_flags_of_engines_that_launch_ahead(tmp_path):
    (ahead, behind), _ = written(tmp_path, row(), row(framework="atom", hardware="mi355x", precision="fp4"))
    values = Try(2.0, 0.5)
    assert Row(ahead.point, ahead.median_ttft, True).seconds == pytest.approx(0.16)
    found = [_changed(one.point, values).spec for one in (ahead, behind)]
    assert [one.policy["ahead_steps"] for one in found] == [2.0, 0.0]
    times = [one.case().scenario.efficiency.host.request_time for one in found]
    assert times == pytest.approx([0.5 + 9.23e-3] * 2)


def test_a_missing_folder_is_one_line(tmp_path, capsys):
    assert main(["--data", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("first_token: ")
