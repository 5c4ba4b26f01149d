"""The page of all scenarios with their derivations, from the scenarios' files: part of `python -m tests.reference`.

Its last section is of values with default constants, which all scenarios are run for.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hwspaces.quantities.units import formatted
from sweeps.studies.scenarios import Check, ScenarioEntry, ScenarioRow, names, outside_by_default, run, scenario
from sweeps.studies.scenarios.rows import unit
from sweeps.studies.scenarios.suite import WIDEST, ScenarioFigures, shared_figures, tabled

HEAD = """# Evidence: scenarios

Made at commit `54aa9be4`, 2026-11-25.

{survey} of the 24 scenarios that a survey of models of machine-learning systems publishes
(github.com/syifan/ml-perf-survey, data/evaluation/llm-benchmark-suite.json, 16 February 2026; it says 28 and lists 24),
with its models, hardware, lengths and parallelism, and {additional} additional ones: {checks} expected values. What the
survey leaves open is listed as "Ours". `jaxroof scenario run --all` compares all of them with its answers
([guide](../guide/scenarios.md)); a test asserts that all agree but the {findings} under [Outside](#outside). This page
is generated from the files in `workloads/scenarios` by `python -m tests.reference`.

Expected values are derived by hand. A derivation is a formula of figures; every figure has its source. The formula's
arithmetic is computed when a file is loaded, and a wrong one is refused. Derivations assume half of the matrix peak,
all of every bandwidth and no fixed time of kernels and hosts, and leave element-wise kernels out; `--efficiency half`
makes the same assumptions, but has element-wise kernels. A published value is compared as it stands, with its source in
place of a derivation. Values agree within 5 % where nothing else is said. A tolerance above {widest} % has a reason.

Agreement tests the arithmetic, with the derivations' own assumptions. What default constants predict is judged by the
same expected values under [Default constants](#default-constants).
"""

DEFAULT = "## Default constants\n"
"""Head of the section about values with default constants."""

DEFAULT_ABOUT = """Of {judged} expected values, {agree} agree with what default constants predict, by the same
tolerances; these {outside} do not. Derivations assume half of the matrix peak, all of every bandwidth and no fixed
time; default constants are fitted to measured kernels, messages and hosts. So most deviations are those of the
assumptions. Where the expected value is a published one, the prediction is at variance with its source.
"""


SHARED = """## Models and devices

Figures that several scenarios share, in SI units, from `workloads/scenario_figures.toml`. They are written from their
sources and not taken from the catalogues, so that they test those as well.
"""


def page() -> str:
    """The whole page."""
    entries = [scenario(name) for name in names()]
    checks = [(entry, check) for entry in entries for check in entry.checks]
    survey = sum(entry.source == "survey" for entry in entries)
    findings = [(entry, check) for entry, check in checks if check.finding]
    counts = {"survey": survey, "additional": len(entries) - survey, "checks": len(checks)}
    parts = [HEAD.format(**counts, findings=len(findings), widest=f"{100 * WIDEST:g}"), "## Outside\n"]
    parts += [f"- {entry.id}, {check.what}: {check.finding}." for entry, check in findings] or ["None."]
    for entry in entries:
        parts += ["", *_section(entry)]
    parts += ["", SHARED]
    for name, table in shared_figures().items():
        parts += [f"### {name}\n", f"{table['source']}.\n", *_figures(tabled(name, table)), ""]
    return "\n".join(parts).rstrip() + "\n"


def whole_page() -> str:
    """The page with its section on default constants."""
    return f"{page()}\n{default_section(run())}"


def default_section(rows: Iterable[ScenarioRow]) -> str:
    """The section on values with default constants: how many agree, and every one that does not."""
    judged = [row for row in rows if row.by_default]
    outside = [row for some in outside_by_default(judged).values() for row in some]
    counts = {"judged": len(judged), "agree": len(judged) - len(outside), "outside": len(outside)}
    lines = [
        DEFAULT,
        DEFAULT_ABOUT.format(**counts),
        "| scenario | value | expected | predicted | deviation | expected by |",
    ]
    lines.append("|---|---|---|---|---|---|")
    for row in outside:
        expected = " to ".join(_text(value, row.unit) for value in dict.fromkeys((row.expected, row.most)))
        check = next(check for check in scenario(row.id).checks if check.what == row.what)
        by = "a derivation" if check.derivation else "a source"
        off = f"{100 * row.predicted_deviation:+.0f} %"
        lines.append(f"| {row.id} | {row.what} | {expected} | {_text(row.predicted, row.unit)} | {off} | {by} |")
    return "\n".join(lines) + "\n"


def _section(entry: ScenarioEntry) -> Iterator[str]:
    yield f"## {entry.id}: {entry.title}\n"
    yield f"Published: {entry.published}." if entry.published else f"Source: {entry.source}."
    if entry.ours:
        yield f"Ours: {entry.ours}."
    yield ""
    own = ScenarioFigures({name: figure for name, figure in entry.figures.items() if "." not in name})
    if own:
        yield from _figures(own, entry.figures)
        yield ""
    yield from (f"- {_sentence(check, entry.figures)}" for check in entry.checks)
    yield from (f"- {_words(refusal.set)} must be refused: it has no {refusal.says}." for refusal in entry.refusals)


def _figures(shown: ScenarioFigures, known: ScenarioFigures | None = None) -> Iterator[str]:
    yield "| figure | value | formula | source |"
    yield "|---|---|---|---|"
    for name, figure in shown.items():
        formula = f"`{figure.formula}`" if figure.formula else ""
        if formula and known is not None:
            formula += f" = `{known.arithmetic(figure.formula)}`"
        yield f"| {name} | {figure.value:.6g} | {formula} | {figure.source} |"


def _sentence(check: Check, known: ScenarioFigures) -> str:
    place = f" at {_words(check.at)}" if check.at else ""
    over = f", over that at {_words(check.over)}" if check.over else ""
    kind = "1" if check.over is not None else unit(check)
    expected = " to ".join(_text(value, kind) for value in dict.fromkeys(check.bounds))
    derived = check.source
    if check.derivation:
        derived = f"`{check.derivation}` = `{known.arithmetic(check.derivation)}`"
    tolerance = f" within {100 * check.tolerance:.3g} %" if check.tolerance else ""
    reason = f" ({check.reason})" if check.reason else ""
    return f"{check.what}: `{check.metric}`{place}{over} = **{expected}**{tolerance}{reason}; {derived}"


def _words(place: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in place.items())


def _text(value: float, kind: str) -> str:
    plain = kind == "1" or not value or math.isnan(value)
    return f"{value:,.4g}" if plain else formatted(value, kind, 4)
