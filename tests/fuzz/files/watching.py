"""What a reader of a file must not do: an audit hook that notes it, limits of memory, and what the values that were read are."""

from __future__ import annotations

import ast
import contextlib
import os
import resource
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy

import dynograd as dg

__all__ = ["Watch", "limit_memory", "outline"]

# Events by their beginning; those of files are looked at apart.
FORBIDDEN = (
    "exec", "compile", "import", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile", "subprocess.", "socket.",
    "pickle.", "ctypes.", "marshal.", "code.__new__", "function.__new__", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.", "pty.",
    "os.putenv", "os.unsetenv", "os.kill", "signal.", "sys.addaudithook", "sys.settrace", "sys.setprofile", "winreg.",
)  # fmt: skip
WRITING = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown", "os.utime", "shutil.", "tempfile.", "os.chdir")  # fmt: skip
_WRITTEN = "<onnx model "
_POWERFUL = "__import__ __builtins__ __loader__ __spec__ eval exec compile open getattr setattr globals vars breakpoint input".split()
_CODE = tuple(
    {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {os.path.realpath(Path(dg.__file__).parent), os.path.realpath(sys.prefix)}
)


class Watch:
    """Notes what happens inside `with`, as far as it is forbidden: code, processes, sockets, and files outside the folder.

    What the library itself imports or writes late is no fault: modules of dynograd and of its dependencies, from their own files, and texts
    of its ops.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = os.path.realpath(folder)
        self.events: list[str] = []
        self.on = False
        self.importing = 0
        sys.addaudithook(self._audit)

    @contextlib.contextmanager
    def __call__(self) -> Iterator[list[str]]:
        self.events = []
        self.on = True
        try:
            yield self.events
        finally:
            self.on = False

    def _audit(self, event: str, arguments: tuple) -> None:
        if not self.on:
            return
        self.on = False
        try:
            if self._is_forbidden(event, arguments):
                self.events.append(f"{event} {arguments!r:.200}")
        finally:
            self.on = True

    def _is_forbidden(self, event: str, arguments: tuple) -> bool:
        if event == "open":
            return self._is_foreign(arguments)
        if event.startswith(WRITING):
            return True
        if not event.startswith(FORBIDDEN):
            return False
        if event == "import":
            return not str(arguments[0]).startswith(("dynograd.", "numpy.", "encodings.ascii", "encodings.utf_"))
        if event == "compile":  # of ast.parse, which NumPy reads headers by
            source, file = arguments
            of_library = file == "<unknown>" or file.startswith("<dynograd ") or _is_of_the_library(file)
            return not of_library and not _is_plain_program(source, file)
        if event == "exec":
            file = arguments[0].co_filename
            return not _is_of_the_library(file) and not file.startswith((_WRITTEN, "<dynograd "))
        if event == "code.__new__" and str(arguments[1]).startswith("<dynograd "):
            return False
        if event == "function.__new__" and arguments[0].co_filename.startswith("<dynograd "):
            return False
        if event in ("marshal.loads", "marshal.load", "code.__new__"):
            return not _is_in_an_import()
        return True

    def _is_foreign(self, arguments: tuple) -> bool:
        path, mode, flags = arguments
        if isinstance(path, int):
            return False
        place = os.path.realpath(os.fsdecode(path))
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)) or bool(
            set(mode or "") & set("wax+")
        )
        inside = place == self.folder or place.startswith(self.folder + os.sep)
        return writes or not (inside or place.startswith(_CODE))


def _is_plain_program(source: Any, file: str) -> bool:
    """Whether a text that the reader of ONNX's models has written says nothing but calls of the library."""
    if not file.startswith(_WRITTEN):
        return False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import) and {alias.name for alias in node.names} - {
            "dynograd",
            "numpy",
            "dynograd.onnx",
        }:
            return False
        if isinstance(node, ast.ImportFrom) and not str(node.module).startswith("dynograd."):
            return False
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            return False
        if isinstance(node, ast.Name) and node.id in _POWERFUL:  # other names of the file are variables
            return False
    return True


def _is_of_the_library(file: Any) -> bool:
    return os.path.realpath(str(file)).startswith(_CODE)


def _is_in_an_import() -> bool:
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap_external>":
            return True
        frame = frame.f_back
    return False


def limit_memory(more: int) -> None:
    """Lets this process have so many bytes of address space beyond those that it has."""
    if sys.platform == "linux":
        size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (size + more, resource.RLIM_INFINITY))


def outline(value: Any) -> Any:
    """What was read, to be compared: each byte of each tensor is touched, and each element lies in the tensor's memory.

    Raises:
        AssertionError: an element lies outside.
    """
    if isinstance(value, dg.Tensor):
        if hasattr(type(value), "__dynograd_rows__") or value.layout.name != "strided":
            return type(value).__name__, str(value.dtype), [outline(part) for part in _parts(value)]
        return type(value).__name__, str(value.dtype), tuple(value.shape), value.stride(), _bytes_of(value)
    if isinstance(value, dg.nn.Module):
        return type(value).__name__, outline(vars(value))
    if isinstance(value, numpy.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, dict):
        return type(value).__name__, [(outline(key), outline(part)) for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [outline(part) for part in value]
    return repr(value) if isinstance(value, _PLAIN) else type(value).__name__


_PLAIN = (type(None), bool, int, float, complex, str, bytes, set, frozenset, dg.dtype, dg.device, type)


def _parts(value: Any) -> list[Any]:
    return [value.values(), value.offsets()] if hasattr(type(value), "__dynograd_rows__") else [value.to_dense()]


def _bytes_of(tensor: Any) -> bytes:
    storage = tensor.untyped_storage()
    memory = bytes(storage)
    last = tensor.storage_offset() + sum([(size - 1) * step for size, step in zip(tensor.shape, tensor.stride())])
    if tensor.numel():
        first = tensor.storage_offset() + sum(
            [min(0, (size - 1) * step) for size, step in zip(tensor.shape, tensor.stride())]
        )
        assert first >= 0 and (last + 1) * tensor.itemsize <= len(memory), (
            f"{tuple(tensor.shape)} goes beyond its {len(memory)} bytes"
        )
    return memory
