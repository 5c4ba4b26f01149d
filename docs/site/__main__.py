"""The site: `python -m docs.site` builds build/site; a warning fails it. Prints pages, seconds and warnings."""

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Build the site with the notebooks executed, or without, and return the exit status of Sphinx."""
    parser = argparse.ArgumentParser(prog="python -m docs.site", description="Build the site into build/site.")
    parser.add_argument("--without-notebooks", action="store_true", help="leave notebooks unexecuted")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "site", help="folder of the site")
    options = parser.parse_args()
    words = ["-m", "sphinx", "-b", "html", "-c", "docs/site", "docs", str(options.to), "-q", "-W", "--keep-going"]
    words += ["-d", str(options.to.with_name(f"{options.to.name}-doctrees"))]
    if options.without_notebooks:
        words += ["-D", "nb_execution_mode=off"]
    begun = time.monotonic()
    done = subprocess.run([sys.executable, *words], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    # Kernels of notebooks say there how they run.
    said = [line for line in done.stderr.splitlines() if line and not re.search(r"IPKernelApp|INFO traitlets", line)]
    print("\n".join(said), file=sys.stderr)
    warnings = sum("WARNING: " in line or "ERROR: " in line for line in said)
    pages = len(list(options.to.rglob("*.html")))
    print(f"{pages} pages in {time.monotonic() - begun:.0f} s, {warnings} warnings: {options.to / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
