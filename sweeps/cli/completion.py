"""`jaxroof completion`: a script that completes verbs, flags, names and files in bash, zsh or fish."""

import argparse
from types import ModuleType

from sweeps.answers.answer import say

SHELLS = {
    "bash": 'eval "$(jaxroof completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(jaxroof completion zsh)" in ~/.zshrc, after compinit',
    "fish": "jaxroof completion fish > ~/.config/fish/completions/jaxroof.fish",
}
"""Shell -> where its script is put."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags of the verb."""
    what = "; ".join(f"{shell}: {line}" for shell, line in SHELLS.items())
    parser.add_argument("shell", metavar="SHELL", help=f"bash, zsh or fish. {what}")


def run(options: argparse.Namespace) -> None:
    """Print the script."""
    if options.shell not in SHELLS:
        raise ValueError(f"SHELL = {options.shell!r} is not known; known: {', '.join(SHELLS)}")
    # Without the shell's own defaults: a flag that takes a number is not followed by a file.
    say(library().shellcode(["jaxroof"], use_defaults=False, shell=options.shell).strip())


def library() -> ModuleType:
    """The library that completes lines from parsers; ValueError in one line where it is not installed."""
    try:
        import argcomplete
    except ModuleNotFoundError:
        from hwspaces.files.extras import installing

        raise ValueError(f"completion needs argcomplete: {installing('completion')}") from None
    return argcomplete
