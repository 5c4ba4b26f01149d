"""`python -m tests.hostile`: every hostile file with who reads it, s and MB that takes, and the line that is said."""

import pathlib
import sys
import tempfile
import warnings

from tests.hostile.case import outcome
from tests.hostile.cases import cases


def main() -> int:
    """Print the table; exit status 1 where a file hangs, fills the memory, or is not answered in one line."""
    warnings.simplefilter("ignore")  # of libraries, on files that make no sense
    wrong = total = 0
    print(f"{'file':<60} {'s':>6} {'MB':>6}  line")
    for case in cases():
        if sys.argv[1:] and sys.argv[1] not in case.name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(case, pathlib.Path(folder))
        total, wrong = total + 1, wrong + bool(found.wrong)
        said = found.line.encode("unicode_escape").decode()[:110]
        print(f"{case.name[:60]:<60} {found.seconds:>6.2f} {found.bytes / 1e6:>6.0f}  {said}", flush=True)
        if found.wrong:
            print(f"    WRONG: {found.wrong[:300]}", flush=True)
    print(f"{total} files, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
