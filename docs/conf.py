"""The site: `make docs` builds it from these pages, the docstrings, the program and `examples/`."""

import logging
import os
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
import likewise

# The build says something only if something is wrong.
os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "warning")
for noisy in ("faiss", "likewise"):
    logging.getLogger(noisy).setLevel(logging.WARNING)

project, author = "likewise", "The likewise authors"
copyright = f"{date.today().year}, the likewise authors"
release = version = likewise.__version__

extensions = [
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "public_names",
    "program",
]
exclude_patterns = ["results", "gallery/*.ipynb", "gallery/*.md5"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 4
# ```sh and ```python as on any page of Markdown; ``` alone is plain text.
highlight_language = "none"
copybutton_exclude = ".linenos, .gp, .go"

# A name in backticks of a docstring is a link if it is one of ours, and code if not.
default_role = "name"
autosummary_generate = False  # public_names writes the pages: names that are imported on first use are in no `dir()`
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature of an estimator is long enough
napoleon_google_docstring = False
napoleon_use_param = napoleon_use_rtype = False
smartquotes = False  # two dashes are an option
napoleon_use_ivar = True  # attributes are described where properties of the same name are too

html_theme = "furo"
html_title = "likewise"
html_static_path = ["_static"]
html_css_files = ["likewise.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

# Pages that stand at the top of the repository, where people look for them, and in `project/` here.
_ELSEWHERE = {f"](../{name.upper()}.md": f"](/project/{name}.md" for name in ("changelog", "contributing", "security")}


def _from_the_top(app, docname, source):
    for there, here in _ELSEWHERE.items():
        source[0] = source[0].replace(there, here)


def _unbroken(app, docname, source):
    """A figure and its spread stay on one line, also in a narrow column."""
    source[0] = source[0].replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def setup(app):
    app.connect("source-read", _from_the_top)
    app.connect("source-read", _unbroken)


sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "within_subsection_order": "FileNameSortKey",
    "plot_gallery": os.environ.get("GALLERY", "1") != "0",  # GALLERY=0 make docs: the pages without running examples
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "write_computation_times": False,
    "thumbnail_size": (400, 280),
}
