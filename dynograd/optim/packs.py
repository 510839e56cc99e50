"""Small parameters updated together: one update of their concatenation costs little more than the update of one of them.

What is packed together, and so the last bit of the result, depends on the parameters and gradients of this step alone, never on
earlier steps: training resumed from a checkpoint continues as it would have.
"""

from __future__ import annotations

from typing import Any

from dynograd import arrays, dtypes
from dynograd.autograd.writes import stamp
from dynograd.kernels import kernel
from dynograd.tensor import Tensor, wrap

__all__ = ["Packs"]

# On a 3 GHz core copying 2048 floats in and out of a pack takes 2 us, an update by itself 5 us and more; 32768 keep to the L2 cache.
SMALL = 2048
PACKED_SIZE = 32768
REMEMBERED = 64


class Packs:
    """Sorts a group's small parameters into packs and runs them; keeps the memory for it from step to step."""

    def __init__(self) -> None:
        self.waiting: dict[Any, list[tuple[Tensor, Tensor, dict[str, Any]]]] = {}
        self.layouts: dict[tuple[int, ...], Layout] = {}
        self.memory: dict[tuple[Any, str], Any] = {}

    def add(self, p: Tensor, g: Tensor, state: dict[str, Any]) -> bool:
        """Takes a parameter into the step's packs; False when it has to be updated by itself."""
        array = p.array
        kind = array.dtype
        if array.size > SMALL or type(array) is not arrays.ndarray or kind.char not in "fd" or g.array.dtype is not kind:
            return False
        step = None
        for name, value in state.items():
            if name == "step":
                step = value.array.item()
            elif value.array.dtype is not kind:
                return False
        key = (kind.char, step, *state)
        held = self.waiting.get(key)
        if held is None:
            self.waiting[key] = [(p, g, state)]
        else:
            held.append((p, g, state))
        return True

    def run(self, optimizer: Any, group: dict[str, Any], line: str) -> None:
        """Updates what was added, and forgets it."""
        waiting, self.waiting = self.waiting, {}
        for members in waiting.values():
            for layout, part in self.divided(members):
                if layout is None:
                    for p, g, state in part:
                        optimizer.update(p, g, state, group)
                        stamp(p.array, line)
                else:
                    self.update_packed(layout, part, optimizer, group, line)

    def divided(self, members: list[Any]) -> list[tuple[Layout | None, list[Any]]]:
        """The members in packs that fit the memory; without layout where they must go one by one."""
        found = []
        start = size = 0
        for position, (p, _, _) in enumerate(members):
            if size + p.array.size > PACKED_SIZE:
                found.append(members[start:position])
                start, size = position, 0
            size += p.array.size
        found.append(members[start:])
        return [(self.layout_of([p.array for p, _, _ in part]), part) for part in found]

    def layout_of(self, pieces: list[Any]) -> Layout | None:
        key = tuple(map(id, pieces))
        layout = self.layouts.get(key)
        if layout is None:
            if len(self.layouts) >= REMEMBERED:
                self.layouts.clear()
            layout = self.layouts[key] = Layout(pieces)
        return layout if layout.worth_it else None

    def update_packed(self, layout: Layout, members: list[Any], optimizer: Any, group: dict[str, Any], line: str) -> None:
        states = [state for _, _, state in members]
        first = states[0]
        packed: dict[str, Any] = {}
        for name, value in first.items():
            if name == "step":
                packed[name] = wrap(arrays.copy(value.array))
            else:
                packed[name] = self.packed(name, layout, [state[name].array for state in states])
        p = self.packed("", layout, layout.pieces)
        optimizer.update(p, self.packed("grad", layout, [g.array for _, g, _ in members]), packed, group)
        unpack = kernel("packing", "unpack", p.array)
        unpack(layout.views("", p.array), layout.pieces)
        for name, value in packed.items():
            if name == "step":
                for state in states:
                    arrays.write(state[name].array, value.array)
            elif name in first:
                unpack(layout.views(name, value.array), [state[name].array for state in states])
            else:
                for state, view in zip(states, layout.cut(value.array)):
                    state[name] = wrap(arrays.copy(view))
        for piece in layout.pieces:
            stamp(piece, line)

    def packed(self, name: str, layout: Layout, pieces: list[Any]) -> Tensor:
        """The pieces, one after another, in memory that the next pack uses again."""
        kind = layout.pieces[0].dtype
        memory = self.memory.get((kind, name))
        if memory is None:
            memory = self.memory[kind, name] = arrays.empty((PACKED_SIZE,), dtypes.BY_NUM[kind.num])
        flat = memory[: layout.size]
        kernel("packing", "pack", flat)(pieces, flat)
        return wrap(flat)


class Layout:
    """Where the elements of some parameters lie in a pack."""

    def __init__(self, pieces: list[Any]) -> None:
        self.pieces = pieces
        self.size = sum(piece.size for piece in pieces)
        # written twice through different parameters, memory would keep the last write only
        self.worth_it = len(pieces) > 1 and len({id(arrays.base_of(piece)) for piece in pieces}) == len(pieces)
        self.kept: dict[str, tuple[int, list[Any]]] = {}

    def views(self, name: str, flat: Any) -> list[Any]:
        """The parts of the memory behind `flat`, in the parameters' shapes; made once for each name."""
        address = id(arrays.base_of(flat))
        kept = self.kept.get(name)
        if kept is None or kept[0] != address:
            kept = self.kept[name] = address, self.cut(flat)
        return kept[1]

    def cut(self, flat: Any) -> list[Any]:
        made, start = [], 0
        for piece in self.pieces:
            made.append(flat[start : start + piece.size].reshape(piece.shape))
            start += piece.size
        return made
