"""Question of Vidur's profiles: the model on every degree, the largest step, and Vidur's names of them."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sweeps.ask.cases import Case, case
from sweeps.serving.launch.deployed import repository_of

LEAST = {"most_tokens": 64, "most_sequences": 4}
"""What the largest step has at least."""

LARGEST = 1 << 20
"""What it has at most."""

NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
"""What Vidur's names of folders can be."""


def profile_cases(words: Mapping[str, Any], degrees: Sequence[int], settings: Mapping[str, Any]) -> list[Case]:
    """Prefills of one model on one device, one per tensor-parallel degree.

    Args:
      words: the names of hardware, model and precisions, of `sweeps.ask.words.CaseWords`.
      settings: numbers of the hardware, by path.
    """
    if len(set(degrees)) < len(degrees):
        raise ValueError(f"--tp {','.join(map(str, degrees))} has a degree twice")
    for path in settings:
        if not path.startswith("hardware."):
            raise ValueError(f"--set {path}: profiles take numbers of the hardware alone")
    # A placeholder of one token: the tables put columns of steps in its place.
    workload = {"prefill": 1.0}
    return [case("step", **words, workload=workload, deployment={"tp": tp}, overrides=settings) for tp in degrees]


def require_most(**most: int) -> None:
    """ValueError where the largest step is smaller than `LEAST` or larger than `LARGEST`."""
    for name, number in most.items():
        if not LEAST[name] <= number <= LARGEST:
            flag = f"--{name.replace('_', '-')}"
            raise ValueError(f"{flag} {number} must be from {LEAST[name]} to {LARGEST:,}")


def names(
    case: Case, asked: str, device: str | None, network: str | None, repository: str | None
) -> tuple[str, str, str]:
    """Vidur's names of the device, the model and the node, where None stands for jaxroof's.

    Args:
      asked: the model as it was asked for.

    Raises:
      ValueError: one line, for a name that is no path inside of a folder.
    """
    device = case.hardware.name.lower() if device is None else device
    model = repository_of(case.model, asked)[0] if repository is None else repository
    network = f"{device}_node" if network is None else network
    for flag, name in (("--device", device), ("--repository", model), ("--network", network)):
        if not NAME.fullmatch(name):
            raise ValueError(f"{flag} {name!r} must be of letters, digits, -, _ and ., with / between owner and name")
    return device, model, network
