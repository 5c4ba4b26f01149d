"""Commands as a user gives them, in tests: what they print, and refusals in one line."""

from sweeps.cli import main


def printed(capsys, *words):
    """What a command prints that ends well."""
    status = main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert status == 0, err
    return out


def refused(capsys, *words):
    """The one line of a command that is refused with status 2."""
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and err.startswith(f"jaxroof {words[0]}: ")
    return err
