"""Power by part: by hand, against the metrics of the same batch, and as a picture."""

import dataclasses

import pytest

import hwspaces
from hwspaces import formatted
from jaxroof import Joules, Power, VoltageCurve, mean_power
from jaxroof.energy.governor import power_by_part
from jaxroof.energy.technology import clock_at
from jaxroof.jobs.request import step_powers
from sweeps.ask.cases import case
from sweeps.cli import main
from sweeps.run.answer import answer
from sweeps.run.evaluate import at_base
from sweeps.show.power import power, spaced
from tests.jaxroof.test_energy import ENERGY
from tests.plots.test_floorplan import written

LINE = VoltageCurve(full=1.0, threshold=0.0, exponent=2.0, least=0.5, static_share=0.0)
"""V^2 / V: clock and voltage fall alike, to half of both."""

PARTS = {"matrix": 700.0, "l2": 100.0}, {"hbm": 100.0}
"""J of a step of 1 s at the cores' voltage, and of memory."""

AT_CLOCK = {384.7: 0.65, 1100.0: 1.0}
"""TDP in W -> share of the full clock: 0.65 (800 x 0.65^2 + 100) + 100 = 384.7."""


def powers(chip, tdp: float, curve: VoltageCurve | None = LINE) -> dict[str, float]:
    hardware = dataclasses.replace(chip, energy=ENERGY, power=Power(tdp=tdp, static=100.0, curve=curve))
    found = {name: float(watts) for name, watts in power_by_part(1.0, *PARTS, hardware).items()}
    assert sum(found.values()) == pytest.approx(
        float(mean_power(1.0, Joules(core=800.0, other=100.0), hardware)), rel=1e-6
    )
    return found


@pytest.mark.parametrize("tdp, share", AT_CLOCK.items())
def test_parts_by_hand_on_the_curve(chip, float64, tdp, share):
    """The cores' parts draw s^3 of what they do at full clock, memory s of it; the limited time is a parabola's."""
    expected = {"matrix": 700.0 * share**3, "l2": 100.0 * share**3, "hbm": 100.0 * share, "static": 100.0}
    assert powers(chip, tdp) == pytest.approx(expected, rel=0.02 if share < 1.0 else 1e-12)


def test_parts_by_hand_below_the_least_voltage_and_without_a_curve(chip, float64):
    """50 W beside static power: at half the voltage 175 + 25 + 100 J take 6 s; at the full one 900 J take 18 s."""
    assert powers(chip, 150.0) == pytest.approx(
        {"matrix": 175.0 / 6.0, "l2": 25.0 / 6.0, "hbm": 100.0 / 6.0, "static": 100.0}, rel=1e-12
    )
    assert powers(chip, 150.0, None) == pytest.approx(
        {"matrix": 700.0 / 18.0, "l2": 100.0 / 18.0, "hbm": 100.0 / 18.0, "static": 100.0}, rel=1e-12
    )


CASES = {
    "full clock": ("H100-SXM", {"tp": 4}, {"batch": 4, "isl": 1, "osl": 256}),
    "micro-batches": ("H100-SXM", {"tp": 2, "pp": 2}, {"batch": 64, "isl": 2048, "osl": 256}),
    "overlap": ("H100-SXM", {"tp": 8, "overlap": "two_batch"}, {"batch": 64, "isl": 2048, "osl": 256}),
    "held by TDP": ("chiplet", {"tp": 2}, {"batch": 32, "isl": 8192, "osl": 256}),
    "below the least voltage": ("chiplet", {"tp": 2}, {"batch": 32, "isl": 8192, "osl": 256}),
    "one step": ("MI300X", {"tp": 2}, {"prefill": 8192, "prefills": 4, "decode": 16, "context": 1024}),
}


@pytest.mark.parametrize("key", CASES)
def test_parts_add_to_the_metrics(key):
    name, deployment, work = CASES[key]
    held = {"hardware.power.curve.least": "1.03V"} if key == "below the least voltage" else {}
    asked = case(
        "request" if "isl" in work else "step",
        name,
        "Llama-3.1-70B",
        deployment=deployment,
        workload=work,
        efficiency="datasheet",
        overrides=held,
    )
    metrics, found = answer(asked).metrics, at_base(step_powers, asked.scenario)
    slowdowns = [value for name, value in metrics.items() if name.endswith("slowdown")]
    assert (max(slowdowns) > 1.0) == (key not in ("full clock", "micro-batches"))
    if held:
        curve = asked.scenario.hardware.power.curve
        assert max(slowdowns) > 1.0 / float(clock_at(curve.least, curve.full, 1.0, curve.threshold, curve.exponent))
    for step, parts in found.items():
        expected = metrics["power" if step == "step" else f"{step}_power"]
        assert sum(float(watts) for watts in parts.values()) == pytest.approx(expected, rel=1e-12)
        assert all(float(watts) >= 0.0 for watts in parts.values())


def test_a_picture_says_power_clock_limit_and_joules():
    name, deployment, work = CASES["held by TDP"]
    asked = case("request", name, "Llama-3.1-70B", deployment=deployment, workload=work, efficiency="datasheet")
    metrics, figure = answer(asked).metrics, power(asked, "32 requests")
    text = written(figure)
    assert f"{metrics['joules_per_token']:.3g} J per output token" in text
    assert f"TDP {formatted(asked.scenario.hardware.power.tdp, 'W')}" in text
    bars = [bar for container in figure.axes[0].containers for bar in container]
    heights = {x: sum(bar.get_height() for bar in bars if bar.get_x() == x) for x in {bar.get_x() for bar in bars}}
    assert sorted(heights.values()) == pytest.approx(sorted(metrics[f"{step}_power"] for step in ("prefill", "decode")))
    labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "full clock, 2.1 GHz" in labels[0] and "held by TDP" in labels[1]


def test_names_stand_apart_and_below_the_top():
    assert spaced([10.0, 50.0], 5.0, 100.0) == [10.0, 50.0]
    assert spaced([0.0, 1.0, 2.0], 5.0, 100.0) == [2.5, 7.5, 12.5]
    assert spaced([90.0, 99.0, 100.0], 5.0, 100.0) == [87.5, 92.5, 97.5]


REFUSALS = {
    "unknown power": (["--hardware", "TPU-v6e", "--prefill", "9"], "TPU-v6e: power is unknown"),
    "step and batch": (
        ["--hardware", "H100-SXM", "--prefill", "9", "--isl", "9"],
        "--prefill is of one step and --isl",
    ),
    "no work": (["--hardware", "H100-SXM"], "a step needs --prefill TOKENS"),
    "flags of a file": (["--hardware", "H100-SXM", "--metric", "tpot"], "--metric: a picture of power is of one step"),
}


@pytest.mark.parametrize("words, reason", REFUSALS.values(), ids=REFUSALS)
def test_bad_input_is_one_line_and_draws_nothing(tmp_path, capsys, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    assert main(["plot", "--kind", "power", "--model", "Llama-3.1-8B", *words, "-o", "power.png"]) == 2
    err = capsys.readouterr().err
    assert reason in err and err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_verb_draws_a_batch_and_a_step(tmp_path, capsys):
    place = ["plot", "--kind", "power", "--hardware", "H100-SXM", "--model", "Llama-3.1-8B"]
    for work in (["--isl", "1024", "--osl", "32", "--batch", "8"], ["--prefill", "512"]):
        path = tmp_path / f"{work[0][2:]}.png"
        assert main([*place, *work, "-o", str(path), "-v"]) == 0
        assert path.stat().st_size > 10_000
    assert capsys.readouterr().out.count("J per ") == 2


def test_an_entry_knows_its_process_and_memory():
    assert (hwspaces.hardware("H100-SXM").process, hwspaces.hardware("gpu-n3").memory) == ("4N", "HBM4")
