"""Builds the site into build/site: prepares the pages, calls Sphinx, writes pages of source, checks the result.

`make site`; `python -m tools.site.build --without tutorials` leaves out what takes long (`tutorials`, `api`, `check`).
Nothing is fetched. Warnings are errors.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tools.site import api, check, pages, plots, run_pages, sources

ROOT = Path(__file__).resolve().parents[2]
PREPARED = ROOT / "build" / "site-pages"
SITE = ROOT / "build" / "site"
PARTS = ("tutorials", "api", "check")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--without", nargs="*", choices=PARTS, default=[], help="what to leave out")
    options = parser.parse_args(arguments)
    for folder in (PREPARED, SITE):
        shutil.rmtree(folder, ignore_errors=True)
    PREPARED.mkdir(parents=True)
    source_pages = sources.SourcePages(ROOT)
    with step("pages"):
        pages.prepare(ROOT, PREPARED, source_pages)
    with step("plots"):
        plots.draw_all(ROOT / "docs", PREPARED / "figures")
    if "api" not in options.without:
        with step("API pages"):
            api.write_pages(PREPARED, source_pages)
    with step("tutorials" if "tutorials" not in options.without else "tutorials (not run)"):
        run_pages.run_all(ROOT, PREPARED, run="tutorials" not in options.without)
    with step("Sphinx"):
        if not sphinx(PREPARED, SITE):
            return 1
    with step("pages of source"):
        source_pages.write(SITE)
    if "check" in options.without:
        return 0
    with step("checks"):
        return check.main([str(SITE)])


def sphinx(prepared: Path, site: Path) -> bool:
    """Whether Sphinx built the site without a warning."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(Path(__file__).parent), "-j", "2", "-q"]
    command += ["-W", "--keep-going", "-d", str(ROOT / "build" / "site-doctrees"), str(prepared), str(site)]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        return False
    shutil.rmtree(site / ".doctrees", ignore_errors=True)
    return True


class step:
    """Prints what is being done, and how long it took."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        print(f"site: {self.name}, {time.perf_counter() - self.start:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
