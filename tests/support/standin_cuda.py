"""The stand-in for libcuda.so.1: builds `cuda/standin/fakecuda.c` and runs Python on it, in a process of its own.

    folder = standin_cuda.build(tmp_path)                      # skips the test where there is no C compiler
    standin_cuda.run(folder, "-c", "import dynograd; ...")     # CompletedProcess, output in .stdout

In that process `standin_cuda.control()` counts and fails calls; see the functions `standin_*` in the C file.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "cuda" / "standin" / "fakecuda.c"


def build(folder):
    """The folder, with libcuda.so.1 in it."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the stand-in libcuda needs a C compiler (cc)")
    if sys.platform != "linux":
        pytest.skip("the stand-in libcuda is for Linux")
    pytest.importorskip(
        "cuda.bindings.driver", reason="the stand-in libcuda needs cuda-bindings (pip install dynograd[gpu])"
    )
    library = Path(folder) / "libcuda.so.1"
    if not library.exists():
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", str(SOURCE), "-o", str(library)]
        created = subprocess.run([*command, "-ldl", "-lpthread"], capture_output=True, text=True)
        assert created.returncode == 0, created.stderr
    return Path(folder)


def environment(folder, **more):
    """Variables for a process that finds the stand-in as its CUDA driver."""
    unset = (
        "DYNOGRAD_CUDA",
        "TRITON_INTERPRET",
        "NUMBA_ENABLE_CUDASIM",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_LAUNCH_BLOCKING",
        "DYNOGRAD_TUNE",
        "DYNOGRAD_CUDA_SYNC",
    )
    kept = {name: value for name, value in os.environ.items() if name not in unset and not name.startswith("PYTEST")}
    paths = os.pathsep.join([str(folder), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
    return kept | {"LD_LIBRARY_PATH": paths, "STANDIN_DEVICES": "2", "PYTHONDONTWRITEBYTECODE": "1"} | more


def run(folder, *arguments, **more):
    """Python with these arguments on the stand-in, from the project's folder; `more` are environment variables."""
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(folder, **more),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def control():
    """The stand-in's own functions, in a process that runs on it."""
    library = ctypes.CDLL("libcuda.so.1")
    library.standin_calls.restype = library.standin_pageable.restype = library.standin_used.restype = ctypes.c_long
    library.standin_fail.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int]
    library.standin_queued.argtypes = [ctypes.c_uint64]
    return library
