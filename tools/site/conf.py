"""Sphinx's settings for the site. The pages are prepared by tools/site/build.py, which calls Sphinx with this folder as its settings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from dynograd.version import dynograd_version  # noqa: E402
from tools.site.names_in_text import setup as link_names_in_text  # noqa: E402

project = "dynograd"
author = "dynograd authors"
copyright = "dynograd authors, BSD-3-Clause"
release = version = dynograd_version

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_enable_extensions = ["colon_fence", "deflist", "attrs_block"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
suppress_warnings = [
    "misc.highlighting_failure",  # blocks of Python that show output or "..."
    "ref.python",  # a type in a signature that two modules have
]

html_theme = "furo"
html_title = "dynograd"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_favicon = str(Path(__file__).parent / "static" / "icon.svg")
html_copy_source = False
html_use_index = False
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True, "light_css_variables": {"font-stack": "system-ui, sans-serif"}}
pygments_style = "friendly"
pygments_dark_style = "native"
add_module_names = False
toc_object_entries = False
python_maximum_signature_line_length = 88
python_display_short_literal_types = True


def setup(app: Any) -> None:
    link_names_in_text(app)
    app.connect("html-page-context", _reuse_side_bar, priority=100)


_side_bars: dict[Any, str] = {}


def _reuse_side_bar(app: Any, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """One side bar serves all pages of the reference, which stand in no list, and in one folder: making it takes most of a page's time.

    It names no modules, which would be 7 MB on all pages; those of modules have them.
    """
    if not page.startswith("api/") or "orphan" not in app.env.metadata.get(page, {}):
        return
    make = context["toctree"]

    def toctree(**options: Any) -> str:
        options["maxdepth"] = 1
        key = tuple(sorted(options.items()))
        if key not in _side_bars:
            _side_bars[key] = make(**options)
        return _side_bars[key]

    context["toctree"] = toctree
