"""Commands as a user gives them, in tests: what they print, and refusals in one line."""

from sweeps.cli import main
from sweeps.cli.verbs import VERBS


def printed(capsys, *words, progress: bool = False) -> str:
    """The whole answer of a command that ends well, with nothing on stderr.

    Args:
      progress: on a slow machine there may be lines of progress on stderr.
    """
    # JSON is whole as it is, and states the command.
    whole = () if "--json" in words else ("-v",)
    return shown(capsys, *words, *whole, progress=progress)


def shown(capsys, *words, progress: bool = False) -> str:
    """What such a command prints, exactly as it is given."""
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert status == 0, err
    assert "jaxroof" not in err if progress else err == ""
    return out


def refused(capsys, *words) -> str:
    """The one line of a command that is refused with status 2, which begins with its verb where that is known."""
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert (status, out) == (2, "") and err.count("\n") == 1
    title = f"jaxroof {words[0]}" if words and words[0] in VERBS else "jaxroof"
    assert err.startswith(f"{title}: ")
    return err
