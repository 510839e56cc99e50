"""The form of a cell's calls: what its body gives for arguments of given kinds, and the body run on all calls of a group together."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from typing import Any

from dynograd import arrays
from dynograd.base.random_streams import default_generator
from dynograd.tensor.tensor import Tensor, wrap
from dynograd.transforms.autobatch.fuse.fusing import Fusing, run_chained
from dynograd.transforms.autobatch.record.forms import Form, kind_of, stand_ins
from dynograd.transforms.autobatch.record.outlines import count_others, filled, outline_of
from dynograd.transforms.autobatch.record.pending import Kind
from dynograd.transforms.batching.batched import Batched, BatchError, Level, make_batched
from dynograd.transforms.batching.batched import _active as active_vmaps
from dynograd.transforms.batching.places import RowPlaces


class CellForm(Form):
    """A cell on arguments of given kinds."""

    __slots__ = ("blocks", "cell", "fusing", "inputs", "outline", "quick", "rebuild")
    run_chained = staticmethod(run_chained)

    def __init__(self, cell: Any, outline: Any, kinds: tuple[Kind, ...], grad: int) -> None:
        super().__init__(cell, {}, grad)
        self.cell, self.outline, self.quick = cell, outline, None
        self.inputs = kinds
        self.blocks = 0  # how much of the random stream a call draws
        self.label = f"cell {cell.name}{line_of(cell.body)}"
        self.places = [(str(number), None) for number in range(len(kinds))]
        if len(active_vmaps.levels):
            self.refused = "it is inside vmap"
            return
        places = RowPlaces([default_generator.state()] * 2)
        with Level(2, places) as level:  # type: ignore[arg-type]
            examples = [make_batched(level, wrap(arrays.to_device(_twice(kind), kind.device))) for kind in kinds]
            for operand, kind in zip(examples, kinds, strict=True):
                operand.inner._requires_grad = kind.grad
            try:
                args, kwargs = filled(outline, iter(examples))
                result = cell.body(*args, **kwargs)
            except BatchError as error:
                self.refused = f"control flow depends on values ({str(error).partition('.')[0].removeprefix('vmap: ')})"
                return
            except MemoryError:  # it says nothing of the call
                raise
            except Exception as error:
                self.refused = f"a trial on stand-ins failed ({type(error).__name__}: {str(error)[:80]})"
                return
            leaves: list[Any] = []
            self.rebuild = outline_of(result, leaves)
            if not leaves or count_others(self.rebuild):
                self.refused = "its result is not made of tensors only"
                return
            kinds_found = []
            for leaf in leaves:
                inside = type(leaf) is Batched
                kind = kind_of(leaf.inner if inside else leaf)
                shape = kind.shape[1:] if inside else kind.shape
                kinds_found.append(Kind.of(shape, kind.dtype, kind.grad, kind.device))
            self.kinds = tuple(kinds_found)
        self.blocks = places.used
        self.single = isinstance(result, Tensor)
        self.pack = self._packed
        self.fusing = Fusing(self)

    def _packed(self, parts: list[Any]) -> Any:
        return filled(self.rebuild, iter(parts))

    def arguments(self, operands: Any) -> tuple[tuple, dict[str, Any]]:
        """What the body is called with, from the tensors in order."""
        return filled(self.outline, iter(operands))

    def results(self, result: Any) -> list[Any]:
        """The tensors in what the body gave, in order."""
        leaves: list[Any] = []
        outline_of(result, leaves)
        return leaves

    def call(self, arguments: dict[str, Any]) -> Any:
        args, kwargs = self.arguments(arguments.values())
        result = self.cell.body(*args, **kwargs)
        return result if self.single else tuple(self.results(result))

    def on_rows(self, operands: list[Any], count: int) -> list[Any]:
        """The body's results for all calls, op by op, from tensors with one row for each."""
        with Level(count, "error") as level:
            args, kwargs = self.arguments([make_batched(level, tensor) for tensor in operands])
            return [
                result.inner if type(result) is Batched else result
                for result in self.results(self.cell.body(*args, **kwargs))
            ]


def line_of(body: Any) -> str:
    """Where a user's body begins, as " (model.py:12)"; an empty text for the library's own."""
    while isinstance(body, functools.partial):
        body = body.func
    code = getattr(inspect.unwrap(body), "__code__", None)
    if code is None or code.co_filename.startswith(_PACKAGE):
        return ""
    return f" ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


_PACKAGE = os.path.dirname(sys.modules["dynograd"].__file__ or "") + os.sep


def _twice(kind: Kind) -> Any:
    return stand_ins(Kind.of((2, *kind.shape), kind.dtype, kind.grad, kind.device))
