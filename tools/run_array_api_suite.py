"""Runs the public test suite of the array API standard (github.com/data-apis/array-api-tests) on `dynograd.array_api`.

`make array-api`, or `python -m tools.run_array_api_suite [FOLDER]` where FOLDER is a clone of the suite with its submodule. Without
FOLDER it is cloned into `.array-api-tests`, at the commit below. What fails for a known reason is listed in
`tests/array_api/expected_failures.txt`; anything else that fails makes the run fail. `--module numpy` runs NumPy instead, to compare.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from dynograd.utils import programs

ROOT = Path(__file__).resolve().parent.parent
SUITE = "https://github.com/data-apis/array-api-tests"
COMMIT = "55fcc60179efa2680ddd6cd926ddf17b83530e2b"  # April 2026
EXPECTED = ROOT / "tests" / "array_api" / "expected_failures.txt"
OURS = "dynograd.array_api"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default=ROOT / ".array-api-tests", type=Path, help="a clone of the suite")
    parser.add_argument("--module", default=OURS, help="the namespace that is tested")
    parser.add_argument(
        "--examples", default=20, type=programs.whole_number(1), help="inputs that are drawn for each test"
    )
    parser.add_argument("--random", action="store_true", help="other inputs in each run")
    parser.add_argument("rest", nargs="*", help="further arguments of pytest, behind --")
    options = parser.parse_args(arguments)
    return programs.run(lambda: run_suite(options), mistakes=(subprocess.CalledProcessError,))


def run_suite(options: argparse.Namespace) -> int:
    if not (options.folder / "array_api_tests").is_dir():
        obtain(options.folder)
    return subprocess.call(command(options), cwd=options.folder, env=environment(options.module))


def command(options: argparse.Namespace) -> list[str]:
    command = [sys.executable, "-m", "pytest", "array_api_tests", "-q", "-p", "no:cacheprovider", "--tb=short", "-rfE"]
    command += [f"--max-examples={options.examples}", "--disable-deadline"]
    if not options.random:
        command.append("--derandomize")
    if options.module == OURS:
        command.append(f"--xfails-file={EXPECTED}")
    return [*command, *options.rest]


def environment(module: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return os.environ | {"ARRAY_API_TESTS_MODULE": module, "ARRAY_API_TESTS_VERSION": "2024.12", "PYTHONPATH": path}


def obtain(folder: Path) -> None:
    """Clones the suite, and the standard's own files that it reads, at the commit that the list of failures was made with."""
    print(f"array API suite: cloning {SUITE} into {folder} ...")
    subprocess.run(["git", "clone", "--quiet", SUITE, str(folder)], check=True)
    subprocess.run(["git", "checkout", "--quiet", COMMIT], cwd=folder, check=True)
    subprocess.run(["git", "submodule", "--quiet", "update", "--init"], cwd=folder, check=True)


if __name__ == "__main__":
    sys.exit(main())
