"""An answer's record as JSON, with the command that it answers."""

from contextvars import ContextVar

COMMAND: ContextVar[str | None] = ContextVar("command", default=None)
"""The command that is run, as a shell takes it; None where a program asks."""


def print_json(record: object, indent: int | None = 2) -> None:
    """Print a record as one JSON value; a number that does not exist is null."""
    print(json_text(record, indent))


def json_text(record: object, indent: int | None = 2) -> str:
    """A record as one JSON value, an object with the command at its end; a number that does not exist is null."""
    import json

    from sweeps.ask.text import finite

    command = COMMAND.get()
    if isinstance(record, dict) and command is not None:
        # A record that states its own command is of another one than this process's.
        record = record if "command" in record else {**record, "command": command}
    # JSON has neither NaN nor infinity: they become null, and the encoder refuses what is left.
    return json.dumps(finite(record), indent=indent, allow_nan=False)
