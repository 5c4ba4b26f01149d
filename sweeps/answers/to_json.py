"""An answer's record as JSON."""


def print_json(record: object, indent: int | None = 2) -> None:
    """Print a record as one JSON value; a number that does not exist is null."""
    print(json_text(record, indent))


def json_text(record: object, indent: int | None = 2) -> str:
    """A record as one JSON value; a number that does not exist is null."""
    import json

    from sweeps.ask.text import finite

    return json.dumps(finite(record), indent=indent, allow_nan=False)
