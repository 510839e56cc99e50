"""The opcodes of pickles that PyTorch's reader of plain data knows (protocol 2), written one after the other.

Texts and names are written once, and referred to from then on; so are the values that the caller says are to be remembered.
"""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["BUILD", "MARK", "REDUCE", "TUPLE", "Opcodes"]

MARK, TUPLE, REDUCE, BUILD = b"(", b"t", b"R", b"b"


class Opcodes:
    """A pickle that is being written."""

    def __init__(self) -> None:
        self.parts: list[bytes] = [b"\x80\x02"]
        self.memo: dict[Any, tuple[int, Any]] = {}
        """By text, name or `id`: the number in the file, and the value, which lives as long as its `id` stands here."""

    def text(self) -> bytes:
        """The pickle."""
        return b"".join([*self.parts, b"."])

    def emit(self, *parts: bytes) -> None:
        self.parts.extend(parts)

    def remember(self, key: Any, value: Any) -> None:
        number = len(self.memo)
        self.memo[key] = number, value
        self.emit(b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number))

    def recalled(self, key: Any) -> bool:
        """Writes a reference to what has been written before."""
        if key not in self.memo:
            return False
        number = self.memo[key][0]
        self.emit(b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number))
        return True

    def name(self, module: str, name: str) -> None:
        if not self.recalled((module, name)):
            self.emit(f"c{module}\n{name}\n".encode())
            self.remember((module, name), None)

    def integer(self, value: int, path: str) -> None:
        if 0 <= value < 1 << 16:
            self.emit(b"K" + bytes([value]) if value < 256 else b"M" + struct.pack("<H", value))
        elif -(1 << 31) <= value < 1 << 31:
            self.emit(b"J" + struct.pack("<i", value))
        else:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            if len(raw) > 255:
                raise TypeError(
                    f"save: {path or 'the object'} is an integer of {value.bit_length()} bits; torch.load reads 2039. Save it as a string."
                )
            self.emit(b"\x8a" + bytes([len(raw)]) + raw)

    def string(self, value: str) -> None:
        if not self.recalled(value):
            raw = value.encode("utf-8", "surrogatepass")
            self.emit(b"X" + struct.pack("<I", len(raw)), raw)
            self.remember(value, None)

    def numbers(self, values: Any, path: str) -> None:
        self.emit(MARK)
        for value in values:
            self.integer(value, path)
        self.emit(TUPLE)

    def empty_ordered(self) -> None:
        self.name("collections", "OrderedDict")
        self.emit(b")", REDUCE)
