"""Flags that verbs share: the deployment that is asked about, and the case that they describe."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from sweeps.ask.flag_text import pairs
from sweeps.ask.keys import words
from sweeps.ask.words import NAMED, SweepWords
from sweeps.cli import deployment
from sweeps.cli.leaf_flags import add_flags, leaf_flags
from sweeps.cli.leaf_flags import flag as flag_of

ACCEPTANCE_HELP = (
    "probability that a drafted token is right (default 0), one for every position (0.8,0.7), the law that every "
    "request draws its own from (beta:MEAN,CONCENTRATION), or a .csv, .toml or .json file with columns position, "
    "sequences, context and acceptance"
)


def word_arguments(parser: argparse._ActionsContainer, *names: str, of: type = SweepWords, help: str = "") -> None:
    """Add flags of words; `help` in place of their own. One that sets a NAME=VALUE may be given several times."""
    for name in names:
        word = words(of)[name]
        # A word that takes NAME=VALUE sets one of many numbers, and may therefore be given again.
        if "=VALUE" in word.flag:
            settings_argument(parser, flag_of(name), help or word.help, word.flag)
        else:
            parser.add_argument(flag_of(name), metavar=word.flag, help=help or word.help)


def case_arguments(parser: argparse._ActionsContainer) -> None:
    """Add the flags that name hardware, model and deployment."""
    names_arguments(parser)
    # Words without a flag have no place on a command line; those `apart` are added by single verbs.
    own = {name: word for name, word in words(SweepWords).items() if word.flag and not word.apart}
    # Words that set leaves stand beside the deployment's own flags in the help.
    beside = [name for name, word in own.items() if word.leaf]
    word_arguments(parser, *(name for name in own if name not in ("hardware", "model", *beside)))
    deployment.arguments(parser)
    word_arguments(parser, *beside)


def case_words(options: argparse.Namespace) -> dict[str, Any]:
    """What the flags of `case_arguments` say, by words of `sweeps.ask.words.CaseWords`."""
    return named_words(options) | {"deployment": deployment.settings(options), "overrides": overrides(options.set)}


def named_words(options: argparse.Namespace) -> dict[str, Any]:
    """Names that the flags give, by words of `sweeps.ask.words.CaseWords`; of other flags None."""
    return {name: getattr(options, name, None) for name in NAMED}


def names_arguments(parser: argparse._ActionsContainer) -> None:
    """Add `--hardware` and `--model`, which `require_names` asks for."""
    word_arguments(parser, "hardware")
    model_arguments(parser)


def model_arguments(parser: argparse._ActionsContainer) -> None:
    """Add `--model`, and `--as`, which `read_as` makes part of it."""
    word_arguments(parser, "model")
    as_argument(parser)


def as_argument(parser: argparse._ActionsContainer) -> None:
    """Add `--as`."""
    what = "read the model's config as this model_type, such as qwen3_moe, whatever type it states"
    parser.add_argument("--as", dest="read_as", metavar="TYPE", help=what)


def read_as(options: argparse.Namespace) -> None:
    """Make what `--as` says part of the model's name, which is how `workloads.model` takes it."""
    # Taken out of the options, so that the type is stated once: in the model's name.
    kind = vars(options).pop("read_as", None)
    if kind is None:
        return
    # The verb that lists models calls the model `name`.
    key = "model" if hasattr(options, "model") else "name"
    if getattr(options, key) is None:
        raise ValueError(f"--as {kind} needs the model that it is about")
    setattr(options, key, f"{getattr(options, key)} as {kind}")


def settings_argument(parser: argparse._ActionsContainer, flag: str, help: str, metavar: str = "NAME=VALUE") -> None:
    """Add a flag that may be given several times, and sets one number each time."""
    parser.add_argument(flag, metavar=metavar, action="append", default=[], help=help)


REQUESTS = leaf_flags("jaxroof.jobs.composition")
"""Flags of a batch of equal requests, by name."""


def length_arguments(parser: argparse._ActionsContainer) -> None:
    """Add `--isl` and `--osl`."""
    add_flags(parser, {name: REQUESTS[name] for name in ("isl", "osl")})


def batch_arguments(parser: argparse._ActionsContainer, batch: str = REQUESTS["batch"].help) -> None:
    """Add the flags of a batch of equal requests beside its lengths; `batch` says what `--batch` counts."""
    add_flags(parser, {"batch": REQUESTS["batch"]._replace(help=batch), "cached": REQUESTS["cached"]})
    parser.add_argument("--acceptance", metavar="SHARE", help=ACCEPTANCE_HELP)


def row_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--row`, which of the rows of a saved comparison is meant."""
    parser.add_argument("--row", metavar="N", help="rank of the row of RESULT.json (default 1, the best)")


def row_number(text: str | None) -> int:
    """The rank that `--row` names."""
    return 1 if text is None else int(whole_number("--row", text))


def space_argument(parser: argparse.ArgumentParser) -> None:
    """Declare --space of a verb that takes a specification."""
    what = "a design space (`jaxroof space`) in place of the specification's hardware and its axes over it"
    parser.add_argument("--space", metavar="NAME", help=what)


def json_argument(parser: argparse.ArgumentParser) -> None:
    """Add `--json`."""
    parser.add_argument("--json", action="store_true", help="one JSON object with SI numbers instead of tables")


def schema_argument(parser: argparse.ArgumentParser, of: str, maker: str) -> None:
    """Add `--schema`, which needs none of the verb's other words.

    Args:
      of: files that it describes, in words.
      maker: the function that returns it, as "module:name".
    """
    parser.add_argument("--schema", action=_Schema, maker=maker, help=f"JSON schema of {of}, for editors, and stop")


class _Schema(argparse.Action):
    """Prints a JSON schema and stops, as `--help` does."""

    def __init__(self, option_strings: Any, dest: str, maker: str, **words: Any) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, default=argparse.SUPPRESS, **words)
        self.maker = maker

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        """Print what the maker returns."""
        import importlib

        from sweeps.answers.to_json import print_json

        module, _, name = self.maker.partition(":")
        print_json(getattr(importlib.import_module(module), name)())
        parser.exit()


def require_names(options: argparse.Namespace) -> None:
    """ValueError where no hardware or no model is named."""
    for flag in ("hardware", "model"):
        if not getattr(options, flag):
            raise ValueError(f"--{flag} is missing; `jaxroof {flag}{'s' * (flag == 'model')}` lists the known names")


def require_lengths(options: argparse.Namespace) -> None:
    """ValueError where `--isl` or `--osl` is not given."""
    for flag in ("isl", "osl"):
        if getattr(options, flag) is None:
            raise ValueError(f"--{flag} TOKENS is missing")


def asked_case(
    job: str,
    options: argparse.Namespace,
    workload: Mapping[str, str | None],
    prefill: dict[str, str] | None = None,
    neighbour: dict[str, str] | None = None,
) -> Any:
    """The `sweeps.Case` that the flags of `case_arguments` and a verb's own workload flags describe.

    Args:
      job: "step", "request" or "disaggregated".
      options: parsed flags.
      workload: text of the job's workload numbers by name; None where the flag was not given.
      prefill, neighbour: settings of the prefill pool or of the other model, by name.

    Raises:
      ValueError: one line that names the flag, its value and what is allowed.
    """
    require_names(options)
    # A flag that was not given is left out, so that the job's own default applies.
    numbers = {name: workload_number(name, text) for name, text in workload.items() if text is not None}
    case_settings = case_words(options)
    from sweeps.ask.cases import case

    return case(job, workload=numbers, prefill=prefill, neighbour=neighbour, **case_settings)


def workload_number(name: str, text: str) -> float | str:
    """The value of a workload's flag: a count, or text that is checked where it is used."""
    from hwspaces.quantities.leaves import declared_quantity
    from sweeps.ask.leaves import known_leaf

    # Counts become numbers here; other text, such as distributions and laws, is parsed where it is used.
    declared = known_leaf(f"workload.{name}")
    return declared_quantity(text, declared, flag_of(name)) if declared.whole else text


def whole_number(flag: str, text: str, zero: bool = False) -> float:
    """The value of a flag that counts something; zero only where that is a sensible answer."""
    from hwspaces import quantity

    # The text 0 alone: quantity() would refuse zero.
    if zero and text == "0":
        return 0.0
    value = quantity(text, "1", flag)
    if value != int(value):
        raise ValueError(f"{flag} = {text!r} must be a whole number")
    return value


def given_values(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """What those of these flags say that are given, by name."""
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


def whole_setting(options: argparse.Namespace, name: str, usual: int, zero: bool = False) -> int:
    """The count that a flag sets; `usual` where it is not given."""
    text = getattr(options, name)
    return usual if text is None else int(whole_number(flag_of(name), text, zero))


def whole_settings(options: argparse.Namespace, names: Iterable[str]) -> dict[str, float]:
    """Counts that those of these flags set which are given."""
    return {name: whole_number(flag_of(name), text) for name, text in given_values(options, names).items()}


def whole_numbers(flag: str, text: str) -> list[int]:
    """The values of a flag that takes counts with commas between."""
    return [int(whole_number(flag, part.strip())) for part in text.split(",")]


def given(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Those of these flags that are given, as they are written."""
    # The three values of flags that were not given: without a value, switches, and lists.
    return [flag_of(name) for name in names if getattr(options, name, None) not in (None, False, [])]


def command_words(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Those of these flags that are given, with their values, as words of a command."""
    words = []
    for name in names:
        value = getattr(options, name)
        if not name.startswith("_") and value not in (None, False):
            # A flag that may be given several times is repeated once for each of its values; a switch has none.
            for each in value if isinstance(value, list) else [value]:
                words += [flag_of(name), *([] if each is True else [each])]
    return words


def known_names(flag: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names in a list with commas, each once, in the order given; ValueError of one line for one not `known`."""
    # Without repetitions, in the order given.
    names = tuple(dict.fromkeys(listed(text) or ()))
    for name in names:
        if name not in known:
            raise ValueError(f"{flag} {name!r} is not known; known: {', '.join(known)}")
    if not names:
        raise ValueError(f"{flag} {text!r} names nothing; known: {', '.join(known)}")
    return names


def listed(text: str | None) -> list[str] | None:
    """Names with commas between; None where the flag is not given."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def overrides(settings: list[str]) -> dict[str, str]:
    """Path -> value of every `--set PATH=VALUE`.

    Raises:
      ValueError: one line, for one that is malformed, given twice, or that a flag of its own sets.
    """
    values: dict[str, str] = {}
    for path, value, setting in pairs("--set", settings, "PATH=VALUE", "hardware.memory.hbm.bandwidth=8TB/s"):
        # The path below its root, by which a degree has a flag of its own.
        name = path.partition(".")[2]
        # A number with a flag of its own is set by that flag alone: two ways could contradict each other.
        if path.startswith("workload.") or (path.startswith("deployment.") and name in deployment.degrees()):
            raise ValueError(f"--set {setting}: use {flag_of(name)}")
        values[path] = value
    return values


def policy_settings(settings: list[str]) -> dict[str, str]:
    """Field -> value of every `--policy NAME=VALUE`.

    Raises:
      ValueError: one line, for one that is malformed or given twice.
    """
    return named_settings("--policy", settings, "token_budget=2048")


def named_settings(flag: str, settings: list[str], example: str) -> dict[str, str]:
    """Name -> value of every `FLAG NAME=VALUE`; ValueError of one line for one that is malformed or given twice."""
    return {name: value for name, value, _ in pairs(flag, settings, "NAME=VALUE", example)}
