"""Streams of text: control characters from files and flags as escapes, and whose fault it is where they fail."""

from sweeps.ask.text import escaped as escaped

TYPE_CHECKING = False  # of `typing`, which takes longer to import than all of this

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class Unprintable(Exception):
    """Standard output does not take what is written to it; `cause` is what the system says."""

    def __init__(self, cause: OSError):
        super().__init__(f"standard output cannot be written: {cause.strerror or cause}")
        self.cause = cause


class Printed:
    """A text stream whose text is escaped, and that says whose fault it is where it cannot be written.

    Characters that its encoding does not have are escapes too.

    Args:
      stream: where the text goes.
      required: raise `Unprintable` where that fails; else what cannot be said is not said.
    """

    def __init__(self, stream: "Any", required: bool, plain: bool = True) -> None:
        self.stream, self.required, self.plain = stream, required, plain
        self.failed: OSError | None = None
        # Characters that the stream's encoding lacks are escaped instead of raising an error.
        if plain and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")

    @property
    def styled(self) -> "Printed":
        """The same stream for what escapes values itself and draws with control characters: `tables.console`."""
        return Printed(self.stream, self.required, plain=False)

    def write(self, text: str) -> int:
        """Write text; the number of its characters."""
        self._tried(self.stream.write, escaped(text) if self.plain else text)
        # Streams return the number of characters of the text that they were given, not of what was written.
        return len(text)

    def writelines(self, lines: "Iterable[str]") -> None:
        """Write several texts."""
        for text in lines:
            self.write(text)

    def flush(self) -> None:
        """Hand on what is buffered; it fails again where it failed before."""
        if self.failed is not None and self.required:
            raise Unprintable(self.failed)
        self._tried(self.stream.flush)

    def _tried(self, call: "Callable[..., object]", *words: str) -> None:
        try:
            call(*words)
        except OSError as error:
            self.failed = error
            # Nobody is told about a stream of errors that fails: there is no other place to say it.
            if self.required:
                raise Unprintable(error) from None

    def __getattr__(self, name: str) -> "Any":
        # Everything else, such as isatty and encoding, is the stream's own.
        return getattr(self.stream, name)


def printed(out: "Any", err: "Any") -> tuple[Printed, Printed]:
    """Standard output and the stream of errors as `Printed`; a closed one, which is None, takes everything."""
    import os

    # A process may start without streams, which Python then sets to None.
    streams = [open(os.devnull, "w", encoding="utf-8") if stream is None else stream for stream in (out, err)]
    return Printed(streams[0], required=True), Printed(streams[1], required=False)


def flushed(*streams: "Any") -> None:
    """Hand on what streams have buffered, as far as they take it."""
    for stream in streams:
        try:
            stream.flush()
        except Unprintable:
            continue  # it has been said
