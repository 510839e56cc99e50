"""Programs in files: safetensors, with the graph as JSON in the metadata, and checksums of the header and of each tensor.

Nothing in a file is run: ops are names, looked up in the table of ops, and arguments are JSON values. Weights are mapped into memory, so that
processes which load one file share them. A file is there whole or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy

from dynograd.base.files import Source, Stream, write_atomically
from dynograd.errors import CheckpointError, ProgramError
from dynograd.export.exported_program import ExportedProgram, Weight
from dynograd.export.exporting import export
from dynograd.kernels.build import packs
from dynograd.saving import checkpoint_files
from dynograd.tensor.tensor import wrap
from dynograd.version import __version__

__all__ = ["FORMAT", "load", "load_program", "save", "save_program"]

FORMAT = 1
_KIND = "dynograd program"
_KINDS = ("parameter", "buffer", "constant")


def save_program(
    model: Callable[..., Any] | ExportedProgram,
    args: Any = (),
    file: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    draws: bool = False,
) -> ExportedProgram:
    """Exports a module or function and writes the program: `export` and `save`.

    Args:
        model: a Module (call `eval()` before), a function of tensors, or a program.
        args, kwargs, dynamic_shapes, draws: of `export`.
        file: a path, or a file opened for writing bytes.
    Returns:
        The program.
    Raises:
        ProgramError: it cannot be a program, or the file cannot be written.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "norm.dg")
    >>> program = dynograd.export.save_program(dynograd.nn.LayerNorm(4), (dynograd.ones(2, 4),), path)
    """
    if file is None:
        raise TypeError(
            "save_program: expected a path or an open file, got none. save_program(model, args, 'model.dg')"
        )
    program = (
        model
        if isinstance(model, ExportedProgram)
        else export(model, args, kwargs, dynamic_shapes=dynamic_shapes, draws=draws)
    )
    save(program, file)
    return program


def save(
    ep: ExportedProgram, f: Any, *, extra_files: None = None, opset_version: None = None, pickle_protocol: int = 2
) -> None:
    """Writes a program.

    Args:
        ep: the program.
        f: a path, or a file opened for writing bytes.
        extra_files, opset_version, pickle_protocol: PyTorch's; of no effect, and None.
    Raises:
        ProgramError: the file cannot be written; what was there before is untouched.

    >>> import io
    >>> file = io.BytesIO()
    >>> dynograd.export.save(dynograd.export.export(dynograd.relu, (dynograd.ones(2),)), file)
    """
    if extra_files or opset_version:
        raise ProgramError("export.save: extra_files and opset_version are not here. Leave them out.")
    entries, orders = {}, []
    for weight in ep.weights:
        array = weight.tensor.detach().array
        order = sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
        whole = array.transpose(order)
        if not whole.flags.c_contiguous:  # parts of other memory
            order, whole = list(range(array.ndim)), numpy.ascontiguousarray(array).reshape(array.shape)
        orders.append(order)
        if weight.tensor.dtype not in checkpoint_files.NAMES.values():
            raise ProgramError(
                f"save_program: {weight.name} is {weight.tensor.dtype.name}, which safetensors does not have. Convert it, as to float32."
            )
        entries[weight.name] = whole
    tree = {"kind": _KIND, "format": FORMAT, "dynograd": __version__, "program": ep.spec, "orders": orders}
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False)
    try:
        if hasattr(f, "write"):
            stream = Stream(f)
            checkpoint_files.write(entries, text, stream)
            stream.flush()
        else:
            write_atomically(os.fspath(f), lambda output: checkpoint_files.write(entries, text, output), "save_program")
    except CheckpointError as error:
        raise ProgramError(str(error)) from error


def load_program(file: Any, *, kernels: Any = None, compiling: bool = True) -> ExportedProgram:
    """Reads a program that `save_program` wrote. Nothing in the file is run, and the Python that it was made of is not needed.

    Args:
        file: a path, or a file opened for reading bytes. Weights of a path are mapped into memory.
        kernels: a folder with packs of compiled kernels (`program.save_kernels`). What is in a pack is run, unlike what is in the file.
        compiling: False: nothing is compiled. A kernel that neither a pack nor the cache has is then an error when it is needed.
    Returns:
        The program.
    Raises:
        ProgramError: no such file, or a damaged one, or one of a newer dynograd.
        FileNotFoundError: there is none.

    >>> import io
    >>> file = io.BytesIO()
    >>> program = dynograd.export.save_program(lambda x: 2 * x + 1, (dynograd.ones(2),), file)
    >>> _ = file.seek(0)
    >>> dynograd.export.load_program(file)(dynograd.ones(2))
    tensor([3., 3.])
    """
    name = str(getattr(file, "name", "the given file") if hasattr(file, "read") else os.fspath(file))
    try:
        if hasattr(file, "read"):
            with Source(bytes(file.read())) as source:
                program = _program_of(*checkpoint_files.read(source, name), name)
        else:
            program = _program_of(*checkpoint_files.mapped(name), name)
    except ProgramError as error:
        raise ProgramError(f"{error} ({name})") from None
    except CheckpointError as error:
        text = str(error).removeprefix("load: ").replace("Use an older checkpoint", "Use another copy")
        raise ProgramError(f"load_program: {text}") from None
    except (RecursionError, MemoryError) as error:
        raise ProgramError(f"load_program: {name} is damaged: {type(error).__name__}.") from None
    if kernels is not None:
        packs.add_folder(kernels)
    program.compiling = compiling
    return program


def load(f: Any, *, extra_files: None = None, expected_opset_version: None = None) -> ExportedProgram:
    """`load_program`, with PyTorch's arguments.

    Args:
        f: a path, or a file opened for reading bytes.
        extra_files, expected_opset_version: of no effect, and None.
    Returns:
        The program.
    Raises:
        ProgramError: no such file, or a damaged one.

    >>> import io
    >>> file = io.BytesIO()
    >>> dynograd.export.save(dynograd.export.export(dynograd.relu, (dynograd.ones(2),)), file)
    >>> _ = file.seek(0)
    >>> dynograd.export.load(file)(-dynograd.ones(2))
    tensor([0., 0.])
    """
    if extra_files or expected_opset_version:
        raise ProgramError("export.load: extra_files and expected_opset_version are not here. Leave them out.")
    return load_program(f)


def _program_of(entries: dict[str, Any], tree: Any, name: str) -> ExportedProgram:
    if type(tree) is not dict or tree.get("kind") != _KIND:
        raise ProgramError(
            f"load_program: {name} is a safetensors file, and holds no program. dynograd.load reads tensors; save_program writes a program."
        )
    if tree.get("format") != FORMAT:
        raise ProgramError(
            f"load_program: {name} has program format {str(tree.get('format'))[:20]}, of dynograd {str(tree.get('dynograd'))[:40]}; this is dynograd "
            f"{__version__}, which reads format {FORMAT}. Export it anew, or use that version."
        )
    spec, orders = tree.get("program"), tree.get("orders")
    listed = spec.get("weights") if type(spec) is dict else None
    if (
        type(listed) is not list
        or type(orders) is not list
        or len(orders) != len(listed)
        or len(entries) != len(listed)
    ):
        raise ProgramError(f"load_program: expected {len(entries)} weights. The file is damaged: export it anew.")
    weights = []
    for pair, order in zip(listed, orders):
        if (
            type(pair) is not list
            or len(pair) != 2
            or type(pair[0]) is not str
            or pair[0] not in entries
            or pair[1] not in _KINDS
        ):
            raise ProgramError(
                f"load_program: expected a weight, got {str(pair)[:80]}. The file is damaged: export it anew."
            )
        array = entries[pair[0]]
        if (
            type(order) is not list
            or sorted(map(str, order)) != sorted(map(str, range(array.ndim)))
            or not all([type(dim) is int for dim in order])
        ):
            raise ProgramError(
                f"load_program: expected the order of dims of {pair[0]}, got {str(order)[:80]}. Export it anew."
            )
        weights.append(Weight(pair[0], pair[1], wrap(array.transpose([order.index(dim) for dim in range(array.ndim)]))))
    return ExportedProgram(spec, weights)
