"""A calibration as an efficiency file, which `--efficiency` takes, with its provenance."""

import dataclasses
import datetime
import hashlib
import pathlib
import shlex
from collections import Counter
from collections.abc import Sequence

import hwspaces
from hwspaces import EfficiencyEntry, formatted
from hwspaces.performance.efficiency import TABLES
from hwspaces.performance.efficiency_file import efficiency_text
from hwspaces.performance.kernel_tables import CLASSES
from jaxroof.efficiency import Efficiency, Kernels
from jaxroof.version import VERSION
from sweeps.serving.calibration.fit import Calibration
from sweeps.serving.calibration.residual import Residual
from workloads.traces.documents import run_of

COMMAND = ("jaxroof", "calibrate")


def calibration_text(
    calibration: Calibration,
    base: EfficiencyEntry,
    efficiency: Efficiency,
    engine: str,
    version: str | None,
    measured: str,
    words: Sequence[str],
) -> str:
    """The TOML text of a calibration.

    Args:
      calibration: its overheads; they replace those of `efficiency`.
      base: where the other constants are from.
      efficiency: the other constants: those of `base`, or with settings of the user's in their place.
      engine: a name of `hwspaces.engine`.
      version: of the engine.
      measured: file of the run, with "#2" after it for the second of several.
      words: of the command that calibrates again, after "jaxroof calibrate".
    """
    # Fitted overheads in s, with three significant digits.
    host = type(efficiency.host)(**{name: float(f"{value:.3g}") for name, value in calibration.after.items()})
    calibrated_efficiency = dataclasses.replace(efficiency, host=host)
    name, requests = pathlib.Path(measured).name, len(calibration.run.stream)
    training, validation = calibration.errors["training"], calibration.errors["validation"]
    heading = {
        "engine": hwspaces.engine(engine).title,
        **({"version": version} if version else {}),
        "date": datetime.date.today().isoformat(),
        "refit": shlex.join([*COMMAND, *words]),
        "errors": f"MAPE before and after, training: {changes(training)}; held out: {changes(validation)}",
    }
    notes = [
        f"Calibrated by jaxroof {VERSION} to {requests} requests of {name}, SHA-256 {digest(measured)}.",
        f"All constants but those of host are those of {base.name}.",
        *calibration.run.notes,
    ]
    return efficiency_text(
        calibrated_efficiency,
        _sources(calibration, base, efficiency, name),
        heading,
        notes,
        f"Overheads of one server: {name}.",
    )


def changes(errors: dict[str, Residual]) -> str:
    """Errors in words, before and after: "TTFT 20.0% to 5.1%, ..."."""
    before, after = errors["before"], errors["after"]
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in ("ttft", "tpot", "e2e"))
    return ", ".join(f"{name.upper()} {first:.1%} to {last:.1%}" for name, first, last in pairs)


def digest(measured: str) -> str:
    """SHA-256 of the file of a run, in hexadecimal."""
    with open(run_of(measured)[0], "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def recorded_words(entry: EfficiencyEntry) -> list[str]:
    """The words after "jaxroof calibrate" with which a calibration's file was made.

    Raises:
      ValueError: one line, for an efficiency that no calibration made.
    """
    words = shlex.split(entry.refit or "")
    if tuple(words[: len(COMMAND)]) != COMMAND:
        raise ValueError(f"{entry.file}: its refit is not a `{' '.join(COMMAND)}` command: it was not calibrated")
    return words[len(COMMAND) :]


def _sources(calibration: Calibration, base: EfficiencyEntry, efficiency: Efficiency, name: str) -> dict[str, str]:
    sources = dict(base.sources)
    for table in TABLES:
        # Tables of kernels get one source for each class of kernels, where most constants of a class share it.
        if isinstance(getattr(efficiency, table), Kernels):
            sources = _by_class(sources, table)
    for constant, before in calibration.before.items():
        path = f"host.{constant}"
        # A constant that the run tells has its error there; the others keep the source of the base.
        if constant in calibration.told:
            was = f"{formatted(before, 's')} in {base.name}"
            sources[path] = f"calibrated to {name}, +-{100 * calibration.spread[constant]:.0f}%; {was}"
        else:
            sources[path] = f"as {base.name}, {name} does not tell it: {base.sources.get(path, 'no source given')}"
    return sources


def _by_class(sources: dict[str, str], table: str) -> dict[str, str]:
    """Sources with one for every class of kernels of a table, the most frequent of its constants, and the others."""
    by_class = {path: source for path, source in sources.items() if not path.startswith(f"{table}.")}
    for name in CLASSES:
        prefix = f"{table}.{name}."
        own = {path: source for path, source in sources.items() if path.startswith(prefix)}
        if own:
            # The usual source is said once for the class; constants of another source keep their own line.
            common = Counter(own.values()).most_common(1)[0][0]
            by_class |= {prefix[:-1]: common} | {path: source for path, source in own.items() if source != common}
    return by_class
