"""Asks osv.dev, in one request, for known vulnerabilities of the versions in constraints.txt: `python -m tools.audit`.

Status 1 where there are some. Where nobody answers it says so in a line, and is no failure: the other checks go on.
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from dynograd.utils import programs
from tools import pins

__all__ = ["ask", "main", "told"]

ADDRESS = "https://api.osv.dev/v1/querybatch"
SECONDS = 10.0


def ask(body: bytes) -> bytes:
    """What osv.dev answers.

    Raises:
        OSError: nobody does, or with an error.
    """
    request = urllib.request.Request(ADDRESS, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return answer.read()


def told(pinned: dict[str, str], known: Sequence[str], asks: Callable[[bytes], bytes] = ask) -> tuple[list[str], bool]:
    """(lines to print, whether there are vulnerabilities that are not `known`)."""
    queries = [{"package": {"name": name, "ecosystem": "PyPI"}, "version": version} for name, version in pinned.items()]
    try:
        results: Any = json.loads(asks(json.dumps({"queries": queries}).encode()))["results"]
        named = [[entry["id"] for entry in result.get("vulns", [])] for result in results]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"not audited: no answer from {ADDRESS} ({type(error).__name__}: {str(error)[:80]})"], False
    if len(named) != len(pinned):
        return [f"not audited: {ADDRESS} answered for {len(named)} of {len(pinned)} packages"], False
    lines = [
        f"{name} {version}: {', '.join(left)} (https://osv.dev/{left[0]}). Move constraints.txt and pyproject.toml to a mended version."
        for (name, version), ids in zip(pinned.items(), named)
        if (left := [each for each in ids if each not in known])
    ]
    return [*lines, f"audited {len(pinned)} packages: {len(lines)} with known vulnerabilities"], bool(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tools.audit", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--known", default="", help="identifiers, with commas, that are no failure: they do not concern dynograd"
    )
    options = parser.parse_args(arguments)
    failures: list[bool] = []

    def look() -> None:
        lines, is_failure = told(pins.pinned(), options.known.split(","))
        print(*lines, sep="\n")
        failures.append(is_failure)

    return programs.run(look, "tools.audit") or int(any(failures))


if __name__ == "__main__":
    sys.exit(main())
