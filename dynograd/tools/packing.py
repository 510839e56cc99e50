"""Makes packs of compiled kernels (`python -m dynograd pack`): runs the programs of `pack_programs` and bundles what they have compiled.

Each program runs in a process of its own, told which level to compile for, with a cache folder that all of them share; so a machine makes
the packs of every level that it can run. Which entries go into the pack the programs tell: those that they ask for. Functions that
are parts of other kernels, and bitcode, which is for compiling further kernels, stay out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numba
from tqdm import tqdm

from dynograd.base import cache_files
from dynograd.kernels.build import kernel_cache, packs, processors
from dynograd.tools.cache import readable_size
from dynograd.tools.pack_programs import PROGRAMS
from dynograd.utils.programs import run, whole_number

__all__ = ["main", "make_pack"]

_MODULE = "dynograd.tools.pack_programs"  # whose PROGRAMS a process runs
_ASKED_FOR = "dynograd entries:"  # begins the line in which a process tells them
_FORMS = 2  # threads of each program: a second one is what the launchers of large work need


def make_pack(
    levels: Sequence[str] = (),
    folder: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    quiet: bool = False,
    programs: Iterable[str] | None = None,
) -> list[Path]:
    """Compiles the kernels of common programs into one pack per level; the files that were written.

    Takes several minutes of all processors.

    Args:
        levels: names of processor levels ("x86-64-v3"), with all their variants; by default the highest of this machine, and its variant.
        folder: where the packs are written; by default `packs` in the user's cache, where every process looks for them.
        processes: how many programs run at once; as many as there are processors by default.
        quiet: no bar.
        programs: names from `pack_programs.PROGRAMS`; all by default.
    Raises:
        ValueError: a level that does not exist or that this machine cannot run, or an unknown program.
        RuntimeError: a program failed; its output is in the message. Or the user's cache is off, and no folder is named.

    >>> make_pack(["x86-64-v9"])
    Traceback (most recent call last):
    ...
    ValueError: make_pack: this machine cannot make packs for 'x86-64-v9'. It can make them for: ...
    """
    possible = processors.level_names()
    named = bool(levels)
    levels = list(dict.fromkeys(levels)) or list(possible[:1])
    for level in levels:
        if level not in possible:
            raise ValueError(
                f"make_pack: this machine cannot make packs for {level!r}. It can make them for: {', '.join(possible)}."
            )
    if not levels:
        raise ValueError("make_pack: this machine's processor is below every level that has packs.")
    chosen = list(PROGRAMS if programs is None else programs)
    unknown = [name for name in chosen if name not in PROGRAMS]
    if unknown:
        raise ValueError(f"make_pack: no program is called {unknown[0]!r}. Programs: {', '.join(PROGRAMS)}.")
    target = cache_files.folder("packs") if folder is None else Path(folder)
    if target is None:
        raise RuntimeError("make_pack: the user's cache is off or cannot be used. Name a folder.")
    target.mkdir(parents=True, exist_ok=True)
    tasks = [
        (f"{level}/{variant}" if variant else level, name)
        for level in levels
        for variant in (("", *processors.LEVELS[level].variants) if named else (processors.variant_of(level),))
        for name in chosen
    ]
    files = []
    with tempfile.TemporaryDirectory(prefix="dynograd-pack-") as work:
        names = _run_all(tasks, Path(work), processes or os.cpu_count() or 1, quiet)
        for level in levels:
            used = sorted({entry for (of, _), entries in names.items() if _level_of(of) == level for entry in entries})
            path = target / packs.file_name(level, numba.__version__)
            made_for = {"level": level, "numba": numba.__version__, "system": sys.platform}
            packs.write(path, made_for, _entries(Path(work) / level / "kernels", used))
            files.append(path)
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives 0, or 2 where no pack can be made."""
    parser = argparse.ArgumentParser(prog="python -m dynograd pack", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "levels", nargs="*", metavar="LEVEL", help="x86-64-v3, say; this machine's own when none is named"
    )
    parser.add_argument(
        "--folder", help="where the packs are written (default: the user's cache, where every program looks)"
    )
    parser.add_argument("--processes", type=whole_number(1), help="programs at once (default: one for each processor)")
    options = parser.parse_args(arguments)
    return run(lambda: _say(make_pack(options.levels, options.folder, options.processes)), "pack")


def _say(files: list[Path]) -> None:
    for path in files:
        print(f"{path}: {len(packs.Pack.open(path).names())} kernels, {readable_size(path.stat().st_size)}")


def _run_all(tasks: list[tuple[str, str]], work: Path, processes: int, quiet: bool) -> dict[tuple[str, str], list[str]]:
    """The entries that each program, on each level, has asked for."""
    running: set[subprocess.Popen[str]] = set()
    lock, stopped = threading.Lock(), threading.Event()
    bar = tqdm(total=len(tasks), desc="compiling kernels", unit="program", disable=quiet)

    def run(task: tuple[str, str]) -> list[str]:
        with lock:
            if stopped.is_set():
                return []
            child = _start(*task, work / _level_of(task[0]))
            running.add(child)
        output, _ = child.communicate()
        with lock:
            running.discard(child)
            bar.update()
        if child.returncode and not stopped.is_set():
            processor, name = task
            raise RuntimeError(f"make_pack: the program {name!r} failed for {processor}:\n{output.strip()}")
        lines = [line for line in output.splitlines() if line.startswith(_ASKED_FOR)]
        return lines[-1].removeprefix(_ASKED_FOR).split() if lines else []  # none: another program has failed

    with bar, ThreadPoolExecutor(min(processes, len(tasks)) or 1) as pool:
        try:
            return dict(zip(tasks, pool.map(run, tasks), strict=True))
        finally:
            with lock:
                stopped.set()
                for child in running:
                    child.kill()


def _level_of(processor: str) -> str:
    """Without the variant."""
    return processor.partition("/")[0]


def _start(processor: str, name: str, folder: Path) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "DYNOGRAD_PROCESSOR": processor,
        "DYNOGRAD_CACHE": "1",
        "DYNOGRAD_CACHE_DIR": str(folder),
        "DYNOGRAD_PACK": "0",
        "DYNOGRAD_QUIET": "1",
        "OMP_NUM_THREADS": str(_FORMS),
        "NUMBA_NUM_THREADS": str(_FORMS),
    }
    command = [sys.executable, "-c", f"from dynograd.tools.packing import _tell; _tell({_MODULE!r}, {name!r})"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _tell(module: str, name: str) -> None:
    """In a process of its own: runs a program and prints the entries that it has asked for."""
    import_module(module).PROGRAMS[name]()
    print(f"\n{_ASKED_FOR}", *kernel_cache.used())


def _entries(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """The machine code of entries. Kernels that hold an address of this process have none."""
    entries = {}
    for name in names:
        payload = kernel_cache.read_from(folder, name)
        if payload is not None:
            machine_code, _ = kernel_cache.parted(payload)
            entries[name] = kernel_cache.joined(machine_code, b"")
    return entries
