"""The table of names that texts may link to: written with the API reference, read when the pages are built."""

from __future__ import annotations

import re

TABLE = "api-names.json"
"""In the folder of prepared pages: from each name that a text may use to the page of its object."""
CALL = re.compile(r"^(?:(?:dynograd|torch)\.)?([A-Za-z_][\w.]*?)(?:\(.*\))?$", re.DOTALL)


def page_of(text: str, names: dict[str, str]) -> str | None:
    """The page of the object that `text` names, perhaps with arguments; None where it names none."""
    match = CALL.match(text)
    return names.get(text) or names.get(match[1]) if match else None
