"""Writes a bill of materials (CycloneDX 1.6, JSON) of what is installed for dynograd: `python -m tools.sbom --output sbom.json`.

It has the project's requirements with their ranges, the versions that are installed here, and what those need. The same environment gives
the same bytes: there is no time and no serial number in it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from dynograd.utils import programs
from tools import pins

__all__ = ["bill", "main"]


def bill() -> dict[str, Any]:
    """The bill of materials."""
    requirements = pins.requirements()
    required = pins.dependencies(requirements[""])
    everything = pins.dependencies([each for group in requirements.values() for each in group])
    ranges: dict[str, list[dict[str, str]]] = {}
    for extra, group in requirements.items():
        for requirement in group:
            place = f"extra {extra}" if extra else "dependencies"
            entry = {"name": f"pyproject:{place}", "value": str(requirement)}
            ranges.setdefault(canonicalize_name(requirement.name), []).append(entry)
    about = pins.of_the_project()
    project = _component(pins.Dependency(about["name"], about["version"], (), about["license"]))
    direct = [_reference(everything[name]) for name in sorted(ranges) if name in everything]
    known = {name: _reference(each) for name, each in everything.items()}
    needs = [(_reference(each), [known[name] for name in each.needs if name in known]) for each in everything.values()]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": project},
        "components": [
            _component(each, "required" if name in required else "optional", ranges.get(name))
            for name, each in everything.items()
        ],
        "dependencies": [
            {"ref": reference, "dependsOn": names} for reference, names in [(project["bom-ref"], direct), *needs]
        ],
    }


def _reference(each: pins.Dependency) -> str:
    return f"pkg:pypi/{each.name}" + ("" if each.version is None else f"@{each.version}")


def _component(
    each: pins.Dependency, scope: str | None = None, ranges: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    component: dict[str, Any] = {"type": "library", "bom-ref": _reference(each), "name": each.name}
    if each.version is not None:
        component["version"] = each.version
    if scope is not None:
        component["scope"] = scope
    if each.licence is not None:
        component["licenses"] = [{"expression": each.licence}]
    component["purl"] = _reference(each)
    if ranges:
        component["properties"] = ranges
    return component


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tools.sbom", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--output", type=Path, help="a file; else it is printed")
    parser.add_argument(
        "--constraints", action="store_true", help="write constraints.txt, with the versions of here, instead"
    )
    options = parser.parse_args(arguments)

    def write() -> None:
        if options.constraints:
            pins.CONSTRAINTS.write_text(pins.constraints_text(), encoding="utf-8")
            return
        text = json.dumps(bill(), indent=2) + "\n"
        if options.output is None:
            print(text, end="")
        else:
            options.output.write_text(text, encoding="utf-8")

    return programs.run(write, "tools.sbom")


if __name__ == "__main__":
    sys.exit(main())
