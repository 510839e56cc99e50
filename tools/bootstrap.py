"""Makes a virtual environment with dynograd (editable) and its extras in it, or finds that it is there already.

`python tools/bootstrap.py .venv --extras dev,viz`. The Makefile calls it before everything it runs. A stamp inside the
environment, written last, says for what it was made; without a valid stamp (an interrupted set-up, a moved or copied
clone, another Python) it is made anew. Runs on the standard library alone.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(os.path.realpath(__file__)).parent.parent
STAMP = "dynograd-stamp.json"
BEGUN = "dynograd-begun"  # lies in every environment of ours, also in one that never got its stamp


class SetupError(Exception):
    """Set-up cannot go on; the message says what the user can do."""


@dataclass
class Stamp:
    """For what an environment was made. Where and with which Python it was made must match for it to be used at all."""

    place: str
    python: str
    pyproject: str
    extras: list[str] = field(default_factory=list)
    unavailable: list[str] = field(default_factory=list)

    def same_base(self, other: Stamp) -> bool:
        return (self.place, self.python) == (other.place, other.python)

    def covers(self, other: Stamp, required: list[str], optional: list[str]) -> bool:
        """Whether nothing needs to be installed: same project file, and every extra is there (or known not to be had)."""
        there = set(self.extras)
        return (
            self.pyproject == other.pyproject
            and there.issuperset(required)
            and (there | set(self.unavailable)).issuperset(optional)
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the environment is, relative to the project")
    parser.add_argument("--extras", default="", help="extras of pyproject.toml that are needed, with commas")
    parser.add_argument("--optional", default="", help="extras that are done without when they cannot be installed")
    options = parser.parse_args(arguments)
    try:
        with locked(ROOT / f"{options.folder}.lock"):
            prepare(ROOT / options.folder, names(options.extras), names(options.optional))
    except SetupError as problem:
        print(f"setup: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nsetup: interrupted; the next run makes {options.folder} anew.", file=sys.stderr)
        return 130
    return 0


def prepare(folder: Path, required: list[str], optional: list[str]) -> None:
    """Leaves `folder` an environment that has the required extras, and the optional ones if they can be had."""
    needed = Stamp(place=str(folder), python=f"{sys.version} {base_python()}", pyproject=hash_of_project())
    stamp = read_stamp(folder)
    if stamp is None or not stamp.same_base(needed) or not python_of(folder).exists():
        make_environment(folder, stamp is not None)
        stamp = None
    elif stamp.covers(needed, required, optional):
        return
    before = stamp.extras if stamp else []
    extras = sorted({*required, *before})
    (folder / STAMP).unlink(missing_ok=True)  # until it is whole again
    say(f"installing dynograd[{','.join(extras)}] into {folder.name} (Python {sys.version.split()[0]}) ...")
    if not install(folder, extras):
        if stamp:  # pip changes nothing before it has everything
            write_stamp(folder, stamp)
        raise SetupError(
            f"pip could not install dynograd[{','.join(extras)}]; its own message is above. "
            f"With the network back, run the same command again."
        )
    unavailable = []
    for extra in sorted(set(optional) - set(extras)):
        say(f"installing dynograd[{extra}] into {folder.name} ...")
        if install(folder, [extra]):
            extras.append(extra)
        else:
            unavailable.append(extra)
            say(f"going on without the extra '{extra}'. To try it again: rm -rf {folder.name}")
    needed.extras, needed.unavailable = sorted(extras), unavailable
    write_stamp(folder, needed)


def make_environment(folder: Path, had_stamp: bool) -> None:
    """A new, empty environment at `folder`. What is there goes, or is put aside when we did not make it."""
    if folder.is_symlink() or folder.is_file():
        folder.unlink()
    elif had_stamp or (folder / BEGUN).exists():
        say(f"making {folder.name} anew: it is unfinished, or was made in another place or by another Python.")
        shutil.rmtree(folder)
    elif folder.exists() and any(folder.iterdir()):
        aside = next(
            path for path in (folder.with_name(f"{folder.name}-before-{i}") for i in range(1000)) if not path.exists()
        )
        say(f"{folder.name} was not made by make; it is kept as {aside.name}.")
        folder.rename(aside)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BEGUN).touch()
    say(f"making {folder.name} with {base_python()} ...")
    done = subprocess.run(
        [base_python(), "-I", "-m", "venv", str(folder)], stdout=subprocess.PIPE, text=True, close_fds=False
    )
    if done.returncode != 0:
        raise SetupError(
            f"`{base_python()} -m venv` failed:\n{done.stdout.strip()}\n"
            f"On Debian and Ubuntu: apt install python3-venv. Or name another Python: make PYTHON=/path/to/python3.12 ..."
        )


def install(folder: Path, extras: list[str]) -> bool:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONHOME", "PYTHONPATH")}
    environment |= {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "DYNOGRAD_PACK": "0"}
    target = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    command = [str(python_of(folder)), "-m", "pip", "install", "--quiet", "--editable", target]
    return subprocess.run(command, env=environment, close_fds=False).returncode == 0


def base_python() -> str:
    """The interpreter itself, also when we run inside some environment (perhaps the one about to be made anew)."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def python_of(folder: Path) -> Path:
    return folder / "bin" / "python"


def hash_of_project() -> str:
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


def read_stamp(folder: Path) -> Stamp | None:
    try:
        return Stamp(**json.loads((folder / STAMP).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def write_stamp(folder: Path, stamp: Stamp) -> None:
    unfinished = folder / f"{STAMP}.part"
    unfinished.write_text(json.dumps(asdict(stamp), indent=1) + "\n")
    unfinished.replace(folder / STAMP)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One set-up of an environment at a time (`make -j`, two terminals). pip holds the lock too, should we be killed."""
    with path.open("w") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another set-up of the same environment ...")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
