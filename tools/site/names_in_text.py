"""Makes names in backticks links: `nn.Linear` in any page leads to the page of `nn.Linear`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from tools.site.name_table import TABLE, page_of


class NamesInText(SphinxPostTransform):
    """Wraps each literal that is a public name (perhaps with arguments) in a link to its page."""

    default_priority = 900

    def run(self, **_: Any) -> None:
        here = self.env.docname
        for literal in list(self.document.findall(nodes.literal)):
            page = page_of(literal.astext(), self.env.dynograd_names)
            parameter = isinstance(literal.parent, nodes.term) and literal.astext().islower()
            if page is None or page == here or parameter or _inside_link_or_title(literal):
                continue
            address = self.app.builder.get_relative_uri(here, page)
            link = nodes.reference("", "", internal=True, refuri=address)
            literal.replace_self(link)
            link += literal


def _inside_link_or_title(node: nodes.Node) -> bool:
    parent = node.parent
    while parent is not None:
        if isinstance(parent, nodes.reference | nodes.title):
            return True
        parent = parent.parent
    return False


def _read_names(app: Any) -> None:
    table = Path(app.srcdir) / TABLE
    app.env.dynograd_names = json.loads(table.read_text(encoding="utf-8")) if table.exists() else {}


def setup(app: Any) -> None:
    app.connect("builder-inited", _read_names)
    app.add_post_transform(NamesInText)
