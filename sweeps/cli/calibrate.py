"""`jaxroof calibrate`: an engine's overheads from one measured run, and a check of calibrated ones on another."""

import argparse
import time
from typing import Any

from sweeps.answers.to_json import print_json
from sweeps.cli import common
from sweeps.cli.outputs import files, output_argument, picture_argument, write
from sweeps.cli.progress import Line
from sweeps.run.compile_cache import compilation_cache

OF_THE_FILE = ("verb", "version", "output", "plot", "force", "json", "verbose", "notes")
"""What is no part of the command that a file repeats."""

OF_THE_RUN = ("measured", "format", "sort", "drop", "check", *OF_THE_FILE)
"""What a later check does not take from the command that made a file."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "one benchmark's results with every request; FILE#2: its run 2"
    parser.add_argument("--measured", metavar="FILE", help=what)
    parser.add_argument("--format", metavar="NAME", help="guidellm, vllm, sglang or blis (default: as it looks)")
    parser.add_argument("--sort", action="store_true", help="put rows in order that are not, instead of refusing them")
    parser.add_argument("--drop", action="store_true", help="leave out rows without tokens, instead of refusing them")
    what = "the efficiency to write, for --efficiency"
    output_argument(parser, "-o", "--output", kinds=("efficiency",), metavar="SERVER.toml", help=what)
    picture_argument(parser, "a .png or .svg of measured against simulated latencies")
    what = "in place of a calibration: does this one hold on the measured run?"
    parser.add_argument("--check", metavar="SERVER.toml", help=what)
    parser.add_argument("--engine", metavar="NAME", help="vllm, sglang or trtllm (default: the efficiency's)")
    parser.add_argument("--engine-version", metavar="TEXT", help="of the engine, such as 0.15.1; for the file")
    what = "a number of the engine's scheduler as it was started: max_sequences=128; may be given several times"
    common.settings_argument(parser, "--policy", what)
    common.json_argument(parser)
    common.case_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Calibrate and write, or check; print the result."""
    if not options.measured:
        raise ValueError("--measured FILE is missing")
    _require_together(options)
    compilation_cache()
    from sweeps.run.precision import precision
    from sweeps.serving.calibration.measured_run import measured_run, serving_of
    from workloads.traces import read_measured

    # Flags of a check default to those of the recorded command, so that they are filled in before the case is made.
    entry = _recorded(options) if options.check else None
    run = measured_run(read_measured(options.measured, options.format or "auto", sort=options.sort, drop=options.drop))
    if options.dp is not None:
        raise ValueError(f"--dp {options.dp}: a run is calibrated on one replica; measure one")
    with precision("float64"):
        case = common.asked_case("request", options, run.mean_lengths)
        serving = serving_of(case, run, common.policy_settings(options.policy))
        _check(options, entry, run, serving) if entry else _calibrate(options, case, run, serving)


def _calibrate(options: argparse.Namespace, case: Any, run: Any, serving: Any) -> None:
    from hwspaces.files.output import saved_text
    from sweeps.answers.calibrate import record, show
    from sweeps.serving.calibration import calibrated
    from sweeps.serving.calibration.file import calibration_text

    engine, start = case.engine.name, time.perf_counter()
    with Line("compiling the simulator") as bar:
        result = calibrated(run, serving, lambda n, error: bar.show(f"simulation {n}: training error {error:.1%}"))
    seconds = time.perf_counter() - start
    if options.output:
        words = common.command_words(options, (name for name in vars(options) if name not in OF_THE_FILE))
        said = (engine, options.engine_version, options.measured, words)
        text = calibration_text(result, case.efficiency, case.scenario.efficiency, *said)
        saved_text(options.output, "efficiency", text, options.force)
    if options.plot:
        from sweeps.show.serving import calibration

        write(options, "plot", lambda: calibration(result))
    if options.json:
        return print_json(record(options, result, engine, seconds))
    show(options, case, result, engine, seconds, files(options))


def _check(options: argparse.Namespace, entry: Any, run: Any, serving: Any) -> None:
    from sweeps.answers.calibrate import check_record, show_check
    from sweeps.serving.calibration.residual import residual

    errors = residual(run, serving)[0]
    about = {"file": options.check, "engine": entry.engine, "date": entry.date, "measured": options.measured}
    print_json({**about, **check_record(run, errors)}) if options.json else show_check(about, run, errors)


def _require_together(options: argparse.Namespace) -> None:
    """ValueError, before anything is computed, for flags that do not go together."""
    # A check writes nothing, and takes its constants from the file that it checks.
    for flag, path in (("-o", options.output), ("--plot", options.plot)):
        if path is not None and options.check:
            raise ValueError(f"{flag} {path} cannot be given with --check, which calibrates nothing")
    if options.check and options.efficiency:
        raise ValueError(f"--efficiency {options.efficiency} cannot be given with --check, which is of {options.check}")
    # Surfaces are netCDF tables: the constants of a TOML file cannot hold them.
    if options.output and (options.efficiency or "").startswith("surface:"):
        raise ValueError(f"--efficiency {options.efficiency}: measured surfaces do not fit into a TOML file; leave -o")


def _recorded(options: argparse.Namespace) -> Any:
    """The checked file's entry; flags that say what was calibrated are filled in from its command."""
    from hwspaces import efficiency
    from sweeps.cli.parser import Parser
    from sweeps.serving.calibration.file import recorded_words

    entry = efficiency(options.check)
    parser = Parser()
    arguments(parser)
    # A flag that is given now takes the place of the recorded one, and what belongs to a run is not repeated.
    for name, value in vars(parser.parse_args(recorded_words(entry))).items():
        if name in vars(options) and name not in OF_THE_RUN and not getattr(options, name):
            setattr(options, name, value)
    options.efficiency = options.check
    return entry
