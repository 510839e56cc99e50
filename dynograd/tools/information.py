"""`python -m dynograd info`: versions, processor, threads, caches and GPUs. What a report of a fault should hold.

Each section is a function that gives names and values; a further one is a row of `SECTIONS`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

from dynograd import cuda
from dynograd.kernels.build import blas, packs, processors, threads
from dynograd.tools import cache
from dynograd.utils import programs

__all__ = ["SECTIONS", "get_pretty_env_info", "information", "main"]

_PACKAGES = "numpy numba llvmlite ml_dtypes safetensors tqdm triton numba-cuda cuda-bindings cuda-core greenlet".split()
_VARIABLES = re.compile(r"(DYNOGRAD|NUMBA|OPENBLAS|OMP|MKL|TRITON|CUDA)_\w+")


def information() -> dict[str, dict[str, str]]:
    """Sections of names and values.

    >>> from dynograd.tools.information import information
    >>> sorted(information())
    ['blas', 'cache', 'environment', 'gpu', 'packs', 'processor', 'versions']
    """
    return {name: section() for name, section in SECTIONS.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives 0."""
    parser = argparse.ArgumentParser(prog="python -m dynograd info", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="as JSON")
    options = parser.parse_args(arguments)
    return programs.run(lambda: _show(options.json), "info")


def get_pretty_env_info() -> str:
    """`information()` as text, under the name of `torch.utils.collect_env`.

    >>> from dynograd.utils.collect_env import get_pretty_env_info
    >>> get_pretty_env_info().splitlines()[0]
    'versions'
    """
    sections = []
    for title, values in information().items():
        width = max(map(len, values), default=0)
        sections.append("\n".join([title, *[f"  {name:{width}}  {value}" for name, value in values.items()]]))
    return "\n\n".join(sections)


def _show(as_json: bool) -> None:
    print(json.dumps(information(), indent=2) if as_json else get_pretty_env_info())


def _versions() -> dict[str, str]:
    versions = {
        "dynograd": sys.modules["dynograd"].__version__,
        "python": f"{platform.python_version()} ({sys.implementation.name})",
    }
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _processor() -> dict[str, str]:
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text(encoding="utf-8", errors="replace") if cpuinfo.exists() else ""
    name = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "name": name[1] if name else platform.processor() or "unknown",
        "kernels for": processors.processor().name,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": f"{usable} usable of {os.cpu_count()}",
        "threads": str(threads.get_num_threads()),
    }


def _blas() -> dict[str, str]:
    library = blas.library()
    if library is None:
        return {"library": "none whose functions can be called: dynograd's own loops compute matrix products"}
    number = library.get_threads() if library.get_threads is not None else "unknown"
    return {"library": os.path.basename(library.path), "threads": str(number)}


def _packs() -> dict[str, str]:
    chosen, version = processors.processor().name, metadata.version("numba")
    return {path: f"{number} kernels" for path, number in packs.in_use(chosen, version)} or {"in use": "none"}


def _gpu() -> dict[str, str]:
    if not cuda.is_available():
        return {"available": f"no: {cuda.unavailable_reason()}"}
    values = {"available": "yes", "driver": f"CUDA {cuda.driver_version()}"}
    for index in range(cuda.device_count()):
        card = cuda.get_device_properties(index)
        memory = cache.readable_size(card.total_memory)
        values[f"cuda:{index}"] = f"{card.name}, compute capability {card.major}.{card.minor}, {memory}"
    return values


def _environment() -> dict[str, str]:
    chosen = {name: value for name, value in sorted(os.environ.items()) if _VARIABLES.fullmatch(name)}
    return chosen or {"variables": "none that matters is set"}


SECTIONS: dict[str, Callable[[], dict[str, str]]] = {
    "versions": _versions,
    "processor": _processor,
    "blas": _blas,
    "cache": cache.describe,
    "packs": _packs,
    "gpu": _gpu,
    "environment": _environment,
}


if __name__ == "__main__":
    sys.exit(main())
