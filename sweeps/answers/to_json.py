"""An answer's record as JSON."""


def print_json(record: object, indent: int | None = 2) -> None:
    """Print a record as one JSON value; a number that does not exist is null."""
    print(json_text(record, indent))


def json_text(record: object, indent: int | None = 2) -> str:
    """A record as one JSON value; a number that does not exist is null."""
    import json

    from sweeps.ask.text import finite

    # JSON has neither NaN nor infinity: they become null, and the encoder refuses what is left.
    return json.dumps(finite(record), indent=indent, allow_nan=False)
