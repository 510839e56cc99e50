"""Small parameters updated together: one update of their concatenation costs little more than the update of one of them.

What is packed together, and so the last bit of the result, depends on the parameters and gradients of this step alone, never on
earlier steps: training resumed from a checkpoint continues as it would have.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays, dtypes
from dynograd.autograd.writes import stamp
from dynograd.errors import ShapeError
from dynograd.kernels import kernel
from dynograd.tensor import Tensor, wrap

__all__ = ["Packs", "shape_error"]

# On a 3 GHz core copying 2048 floats in and out of a pack takes 2 us, an update by itself 5 us and more; 32768 keep to the L2 cache.
SMALL = 2048
PACKED_SIZE = 32768
REMEMBERED = 64


class Packs:
    """Sorts a group's small parameters into packs and runs them; keeps the memory for it from step to step."""

    def __init__(self) -> None:
        self.open: dict[Any, Pack] = {}
        self.packs: list[Pack] = []
        self.layouts: dict[tuple[int, ...], Layout] = {}
        self.memory: dict[tuple[Any, str], Any] = {}

    def take(self, optimizer: Any, p: Tensor, g: Tensor, state: dict[str, Any]) -> bool:
        """Takes a parameter into the step's packs; False when it has to be updated by itself. Checks the state's shapes."""
        array, gradient = p.array, g.array
        kind, shape = array.dtype, array.shape
        fits = array.size <= SMALL and kind.char in "fd" and gradient.dtype is kind and type(array) is arrays.ndarray
        step = None
        for name, value in state.items():
            held = value.array
            if name == "step":
                step = held.item()
            elif held.shape != shape:
                raise shape_error(optimizer, name, held, array)
            elif held.dtype is not kind:
                fits = False
        if not fits:
            return False
        key = (kind.char, step, *state)
        pack = self.open.get(key)
        if pack is None or pack.size + array.size > PACKED_SIZE:
            pack = self.open[key] = Pack()
            self.packs.append(pack)
        pack.size += array.size
        pack.members.append((p, g, state))
        pack.pieces.append(array)
        pack.gradients.append(gradient)
        return True

    def run(self, optimizer: Any, group: dict[str, Any], line: Any) -> None:
        """Updates what was taken, and forgets it."""
        packs, self.packs, self.open = self.packs, [], {}
        for pack in packs:
            layout = self.layout_of(pack.pieces)
            if layout.worth_it:
                self.update_packed(layout, pack, optimizer, group)
            else:
                for p, g, state in pack.members:
                    optimizer.update(p, g, state, group)
            for piece in pack.pieces:
                stamp(piece, line)

    def layout_of(self, pieces: list[Any]) -> Layout:
        key = tuple(map(id, pieces))
        layout = self.layouts.get(key)
        if layout is None:
            if len(self.layouts) >= REMEMBERED:
                self.layouts.clear()
            layout = self.layouts[key] = Layout(pieces)
        return layout

    def update_packed(self, layout: Layout, pack: Pack, optimizer: Any, group: dict[str, Any]) -> None:
        states = [state for _, _, state in pack.members]
        names = list(states[0])
        held = {name: [state[name].array for state in states] for name in names}
        packed = {
            name: wrap(arrays.copy(held[name][0])) if name == "step" else self.filled(name, held[name], layout)
            for name in names
        }
        p = self.filled("", pack.pieces, layout)
        optimizer.update(p, self.filled("gradient", pack.gradients, layout), packed, group)
        unpack = kernel("packing", "unpack", p.array)
        unpack(layout.views("", p.array), pack.pieces)
        for name, value in packed.items():
            if name == "step":
                unpack([value.array] * len(states), held[name])
            elif name in held:
                unpack(layout.views(name, value.array), held[name])
            else:
                for state, view in zip(states, layout.cut(value.array)):
                    state[name] = wrap(arrays.copy(view))

    def filled(self, name: str, pieces: list[Any], layout: Layout) -> Tensor:
        """The pieces, one after another, in memory that the next pack uses again."""
        kind = pieces[0].dtype
        memory = self.memory.get((kind.char, name))
        if memory is None:
            memory = self.memory[kind.char, name] = arrays.empty((PACKED_SIZE,), dtypes.BY_NUM[kind.num])
        flat = memory[: layout.size]
        kernel("packing", "pack", flat)(pieces, flat)
        return wrap(flat)


class Pack:
    """Parameters that this step updates together."""

    __slots__ = ("gradients", "members", "pieces", "size")

    def __init__(self) -> None:
        self.size = 0
        self.members: list[tuple[Tensor, Tensor, dict[str, Any]]] = []
        self.pieces: list[Any] = []
        self.gradients: list[Any] = []


class Layout:
    """Where the elements of some parameters lie in a pack. It holds on to their memory, so that ids stay theirs."""

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces
        self.size = sum(piece.size for piece in pieces)
        # written twice through different parameters, memory would keep the last write only
        self.worth_it = len(pieces) > 1 and len({id(arrays.base_of(piece)) for piece in pieces}) == len(pieces)
        self.kept: dict[str, tuple[Any, list[Any]]] = {}

    def views(self, name: str, flat: Any) -> list[Any]:
        """The parts of the memory behind `flat`, in the parameters' shapes; made once for each name."""
        memory = arrays.base_of(flat)
        kept = self.kept.get(name)
        if kept is None or kept[0] is not memory:
            kept = self.kept[name] = memory, self.cut(flat)
        return kept[1]

    def cut(self, flat: Any) -> list[Any]:
        made, start = [], 0
        for piece in self.pieces:
            made.append(flat[start : start + piece.size].reshape(piece.shape))
            start += piece.size
        return made


def shape_error(optimizer: Any, name: str, found: Any, parameter: Any) -> ShapeError:
    return ShapeError(
        f"{type(optimizer).__name__}.step: {name} has shape {tuple(found.shape)}, but its parameter has shape "
        f"{tuple(parameter.shape)}. After replacing a parameter's data, drop its gradient (zero_grad) and its state "
        f"(del optimizer.state[p])."
    )
