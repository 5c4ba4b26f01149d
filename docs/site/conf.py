"""Settings of the site that `make docs` builds from docs/ into build/site; everything on it works without a network."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from docs.site import api, doctrees, math, sections, verbs  # noqa: E402
from jaxroof.version import VERSION  # noqa: E402

project, release, language = "jaxroof", VERSION, "en"
extensions = ["myst_nb"]
exclude_patterns = ["site", "examples", "pictures", "*/README.md"]
suppress_warnings = ["myst.header"]  # evidence skips a level where a table has its own title

# Markdown: anchors as GitHub makes them, equations between dollars, and prices such as $2.10 left alone.
myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_dmath_allow_digits = myst_dmath_allow_space = False
myst_heading_anchors = 4
highlight_language = "text"
smartquotes = False  # -- of a flag is no dash

# Notebooks run when the site is built; a cell that fails, or takes long, fails the build.
nb_execution_mode = "cache"
nb_execution_in_temp = True  # what notebooks write is no part of the pages
nb_execution_cache_path = str(ROOT / "build" / "notebooks")
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_show_tb = True

maximum_signature_line_length = 88
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"jaxroof {VERSION}"
html_static_path, html_css_files = ["static"], ["site.css"]
html_math_renderer = "mathml"
html_show_search_summary = False  # it would fetch every page that is found, which browsers refuse for files
html_show_sphinx = html_show_copyright = html_copy_source = False
html_theme_options = {"navigation_with_keys": True}


def setup(app):  # noqa: ANN201
    """Write the generated pages before any is read, and mend what is read."""
    math.setup(app)
    doctrees.setup(app)
    for part in (api, verbs, sections):
        app.connect("builder-inited", lambda app, part=part: part.write(Path(app.srcdir)))
    app.connect("source-read", lambda app, name, text: text.append(sections.linked(text.pop())))
