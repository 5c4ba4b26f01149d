"""Picture of a served comparison: its title, its bars and intervals, and numbers that do not cover each other."""

import numpy as np
import pytest

from sweeps.entries.comparisons import compare
from sweeps.show.served import DIAMETER, MOST, ranking

PAIR = ("H100-SXM", "MI300X")


def drawn(**keys):
    given = {"isl": 256, "osl": 32, "hardware": PAIR, "devices": (1, 2), "simulate": 0}
    given["disaggregated"] = False
    found = compare("Llama-3.1-8B", "ttft=500ms,tpot=20ms", **{**given, **keys})
    return found, ranking(found, found.rows)


def test_every_row_has_a_bar_and_the_best_is_in_the_title():
    found, figure = drawn()
    bars, _ = figure.axes
    widths = [patch.get_width() for patch in bars.patches]
    assert widths == pytest.approx([row.metrics["usd_per_million_tokens"] for row in found.rows]) and len(widths) == 6
    best = found.rows[0]
    words = "\n".join(text.get_text() for text in figure.texts)
    assert f"{best.devices} x {best.hardware} ({best.layout}) is best for Llama-3.1-8B" in words
    assert "at the largest load within TTFT <= 500 ms" in words
    pale = [patch.get_alpha() < 1.0 for patch in bars.patches]
    assert pale == [
        row.hardware == "MI300X" or "pp" in row.layout for row in found.rows
    ]  # not among the measured architectures, or pipeline stages, which no served run confirms
    (lines,) = bars.collections
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])
    assert (ends[:, 0] < widths).all() and (widths < ends[:, 1]).all()
    assert bars.get_yticklabels()[0].get_text().endswith("  e")


def test_replicas_are_named_where_a_rate_is_asked_for():
    found, figure = drawn(rate=500.0)
    words = "\n".join(text.get_text() for text in figure.texts)
    assert f"{found.rows[0].replicas} replicas of " in words and " at 500 requests/s within " in words


def test_numbers_of_points_do_not_cover_each_other():
    """At a rate, layouts of as many replicas have one throughput, and many points are nearly on each other."""
    found, figure = drawn(rate=500.0, devices=(1, 2, 4, 8), hardware=(*PAIR, "H200-SXM", "B200-SXM"))
    _, trade = figure.axes
    numbers = [text for text in trade.texts if text.get_text().isdigit()]
    places = trade.transData.transform([text.get_position() for text in numbers]) * 72.0 / figure.dpi
    apart = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1)) + 1e9 * np.eye(len(places))
    assert numbers[0].get_text() == "1" and 4 < len(numbers) < min(len(found.rows), MOST)
    assert apart.min() > 0.9 * DIAMETER  # the layout of the page is settled once more when it is saved


def test_nothing_to_draw_is_an_error():
    found, _ = drawn()
    with pytest.raises(ValueError, match="there is nothing to draw"):
        ranking(found, ())
