"""The bytes of a checkpoint: a safetensors file whose metadata hold a checksum of each tensor and of the header itself.

    8 bytes      length of the header
    header       {"__metadata__": {"dynograd.crc32": checksum of the header with this field all zeros,
                                   "dynograd": {"format": 2, "crc32": {tensor: checksum}, "tree": what is not a tensor}},
                  tensor: {"dtype", "shape", "data_offsets"}, ...} and spaces to a multiple of 8 bytes
    tensors      one after the other, without gaps

Other programs read the tensors and pass over the metadata. The safetensors library checks the header of what is read; a file
without our metadata is somebody else's, and has no checksums to compare.
"""

from __future__ import annotations

import json
from typing import Any

import numpy

from dynograd import arrays
from dynograd.base import checksums, dtypes
from dynograd.base.files import Output, Source, open_ordinary
from dynograd.errors import CheckpointError

__all__ = ["FOREIGN", "FORMAT", "TREE", "has_name", "mapped", "metadata_of", "read", "write", "write_plain"]

FORMAT = 2
FOREIGN = object()
TREE = "dynograd.tree"
"""Name of the tensor that holds a tree too long for the header, as text."""

_KEY, _SUM = "dynograd", "dynograd.crc32"
_START = b'{"__metadata__":{"dynograd.crc32":"'
_NO_SUM = "0" * 8
_LONGEST_HEADER = 100_000_000  # what the safetensors library reads
_LONGEST_TREE = 1 << 24
_OLDER = "Use an older checkpoint."

NAMES = {
    "F64": dtypes.float64,
    "F32": dtypes.float32,
    "F16": dtypes.float16,
    "BF16": dtypes.bfloat16,
    "F8_E4M3": dtypes.float8_e4m3fn,
    "F8_E5M2": dtypes.float8_e5m2,
    "I64": dtypes.int64,
    "I32": dtypes.int32,
    "I16": dtypes.int16,
    "I8": dtypes.int8,
    "U8": dtypes.uint8,
    "U16": dtypes.uint16,
    "U32": dtypes.uint32,
    "U64": dtypes.uint64,
    "BOOL": dtypes.bool,
    "C64": dtypes.complex64,
}
_NAME_OF = {kind: name for name, kind in NAMES.items()}
_ORDER = "U64 I64 F64 C64 F32 U32 I32 BF16 F16 U16 I16 F8_E4M3 F8_E5M2 I8 U8 BOOL".split()
"""Of tensors in a file, as the safetensors library puts them: each begins at a multiple of its elements."""


# --- writing ------------------------------------------------------------------------------------------------------------------


def write(entries: dict[str, Any], tree: str, output: Output) -> None:
    """Writes a file.

    Args:
        entries: contiguous arrays on the CPU by name, of a dtype that safetensors has.
        tree: the rest, as JSON.
        output: where to; checksums are taken while the tensors are written, if it can go back to the header.
    Raises:
        CheckpointError: the header would be longer than readers accept.
    """
    if len(tree) > _LONGEST_TREE:
        entries = {TREE: arrays.from_bytes(tree.encode(), (len(tree),), dtypes.uint8), **entries}
        tree = "null"
    ordered = sorted(
        entries, key=lambda name: -entries[name].dtype.itemsize
    )  # each begins at a multiple of its elements
    pieces = [arrays.bytes_of(entries[name]) for name in ordered]
    places, end = {}, 0
    for name, piece in zip(ordered, pieces):
        kind = _NAME_OF[dtypes.of_array(entries[name])]
        places[name] = {"dtype": kind, "shape": list(entries[name].shape), "data_offsets": [end, end + len(piece)]}
        end += len(piece)

    def header_with(checksums_of_pieces: Any) -> bytes:
        sums = dict(zip(ordered, checksums_of_pieces))
        text = f'{{"format":{FORMAT},"crc32":{_json(sums)},"tree":{tree}}}'
        return _with_own_checksum(_padded(_json({"__metadata__": {_SUM: _NO_SUM, _KEY: text}, **places}).encode()))

    header = header_with([_NO_SUM] * len(ordered))
    if len(header) > _LONGEST_HEADER:
        raise CheckpointError(
            f"save: the header would have {len(header)} bytes, readers of safetensors accept {_LONGEST_HEADER}: {len(ordered)} tensors "
            f"and {len(tree)} characters of other values. Put long lists of numbers into tensors, or save several files."
        )
    length = len(header).to_bytes(8, "little")
    if output.can_go_back:
        output.write(length + header)
        checksums_of_pieces = checksums.while_writing(pieces, output.write)
        output.write_at(header_with([f"{checksum:08x}" for checksum in checksums_of_pieces]), 8)
        return
    checksums_of_pieces = checksums.while_writing(pieces, lambda piece: None)
    output.write(length + header_with([f"{checksum:08x}" for checksum in checksums_of_pieces]))
    for piece in pieces:
        output.write(piece)


def has_name(kind: dtypes.dtype) -> bool:
    """Whether safetensors has the dtype."""
    return kind in _NAME_OF


def write_plain(entries: dict[str, Any], metadata: dict[str, str], output: Output) -> None:
    """Writes a file with nothing of ours in it: the bytes that the safetensors library makes of the same arrays.

    Args:
        entries: contiguous arrays on the CPU by name, of a dtype that safetensors has.
        metadata: texts by name.
        output: where to.
    """
    kinds = {name: _NAME_OF[dtypes.of_array(array)] for name, array in entries.items()}
    places: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    ordered, end = sorted(entries, key=lambda name: (_ORDER.index(kinds[name]), name)), 0
    for name in ordered:
        size = entries[name].nbytes
        places[name] = {"dtype": kinds[name], "shape": list(entries[name].shape), "data_offsets": [end, end + size]}
        end += size
    header = _padded(json.dumps(places, separators=(",", ":"), ensure_ascii=False).encode())
    output.write(len(header).to_bytes(8, "little") + header)
    for name in ordered:
        output.write(arrays.bytes_of(entries[name]))


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _padded(header: bytes) -> bytes:
    return header + b" " * (-len(header) % 8)


def _with_own_checksum(header: bytes) -> bytes:
    """The header with its checksum in the field for it, which is all zeros."""
    place = len(_START)
    return header[:place] + f"{checksums.crc32(header):08x}".encode() + header[place + len(_NO_SUM) :]


# --- reading ------------------------------------------------------------------------------------------------------------------


def read(source: Source, name: str, pages: Any = None, compared: bool = False) -> tuple[dict[str, Any], Any]:
    """(arrays by name, the tree or FOREIGN in somebody else's file) of a file, which is `name` in messages.

    Args:
        pages: a memory map of the file, which arrays then lie in.
        compared: compare the checksums of these as well, which reads them all; those of other arrays always are.
    Raises:
        CheckpointError: it is damaged, incomplete, or no such file.
    """
    header, begin = _read_header(source, name)
    places = _parsed(header, name)
    metadata = places.pop("__metadata__", None) or {}
    own = _own_metadata(header, metadata, name)
    sums = {} if own is None else own["crc32"]
    if own is not None and set(sums) != set(places):
        odd = sorted(set(sums) ^ set(places))[0]
        raise CheckpointError(
            f"load: {name} is damaged: {odd!r} is not both a tensor and in the list of them. {_OLDER}"
        )
    entries: dict[str, Any] = {}
    reads: list[tuple[str, Any, int]] = []
    there: list[tuple[str, Any]] = []  # in memory already
    for key, place in places.items():
        kind = NAMES.get(place["dtype"])
        if kind is None:
            raise CheckpointError(
                f"load: {name} has a tensor {key!r} of the safetensors dtype {place['dtype']}, which dynograd does not have. "
                f"Convert it where the file was made."
            )
        try:
            entries[key] = arrays.empty(tuple(place["shape"]), kind)
        except ValueError as error:
            raise CheckpointError(f"load: {name} is damaged: {key!r} has shape {place['shape']} ({error}).") from None
        first, last = place["data_offsets"]
        target = arrays.bytes_of(entries[key])
        if len(target) != last - first:
            raise CheckpointError(
                f"load: {name} is damaged: {key!r} of shape {place['shape']} has {last - first} bytes."
            )
        if pages is not None and len(target) and not (begin + first) % kind.itemsize and key != TREE:
            entries[key] = numpy.ndarray(tuple(place["shape"]), kind.numpy, pages, begin + first)
            if compared:
                there.append((key, arrays.bytes_of(entries[key])))
            continue
        reads.append((key, target, begin + first))
    try:
        places_read = [(target, offset, own is not None) for _, target, offset in reads]
        computed = checksums.read_all(places_read, source.read_into)
        computed += checksums.read_all(
            [(target, 0, own is not None) for _, target in there], lambda target, offset: None
        )
    except EOFError:
        raise CheckpointError(f"load: {name} became shorter while it was read. {_OLDER}") from None
    if own is None:
        # Further names of tied tensors, as `safetensors.torch.save_model` and `folders` write them.
        ties = {key: name for key, name in metadata.items() if key != "format"}
        entries.update({key: entries[name] for key, name in ties.items() if name in entries and key not in entries})
        return entries, FOREIGN
    for key, checksum in zip([*[key for key, _, _ in reads], *[key for key, _ in there]], computed):
        if f"{checksum:08x}" != sums[key]:
            raise CheckpointError(
                f"load: {name} is damaged: the bytes of tensor {key!r} have checksum {checksum:08x}, expected {sums[key]}. {_OLDER}"
            )
    if TREE in entries:
        own["tree"] = _loads(bytes(arrays.bytes_of(entries.pop(TREE))), name)
    return entries, own["tree"]


def mapped(path: str) -> tuple[dict[str, Any], Any]:
    """As `read`, of arrays that are the file's own pages in memory: read when they are used, shared with other processes, copied when written.

    Raises:
        CheckpointError: it is damaged, incomplete, or no such file.
    """
    with open_ordinary(path) as file, Source(file, path) as source:
        return read(source, path, source.pages(), compared=True)


def metadata_of(source: Source, name: str) -> Any:
    """The tree alone, in a file of ours; the tensors are not read. FOREIGN in somebody else's file."""
    header, _ = _read_header(source, name)
    own = _own_metadata(header, _parsed(header, name).get("__metadata__") or {}, name)
    return FOREIGN if own is None else own["tree"]


def _read_header(source: Source, name: str) -> tuple[bytes, int]:
    """(the header, where the tensors begin), when the safetensors library finds nothing wrong with it and the file's length."""
    from safetensors import SafetensorError

    size = len(source.view)
    length = int.from_bytes(source.view[:8], "little")
    if size < 8 or length > min(size - 8, _LONGEST_HEADER):
        raise CheckpointError(f"load: {name} {_diagnosis(source.view, 'its header is cut off')}")
    try:
        _check(source)
    except SafetensorError as error:
        raise CheckpointError(f"load: {name} {_diagnosis(source.view, error)}") from None
    return bytes(source.view[8 : 8 + length]), 8 + length


def _check(source: Source) -> None:
    """The safetensors library's own look at the header and the length of the file."""
    from safetensors import deserialize, safe_open

    if source.path is None:
        deserialize(bytes(source.view))
    else:
        with safe_open(source.path, framework="np"):
            pass


def _parsed(header: bytes, name: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        parsed = dict(pairs)
        if len(parsed) != len(pairs):
            twice = next(key for number, (key, _) in enumerate(pairs) if key in dict(pairs[:number]))
            raise CheckpointError(f"load: {name} is damaged: its header has {twice!r} twice. {_OLDER}")
        return parsed

    return _loads(header, name, unique)


def _own_metadata(header: bytes, metadata: dict[str, str], name: str) -> Any:
    """{"format", "crc32", "tree"} when the file is ours and its header has the checksum it says; None when it is not ours."""
    if _KEY not in metadata and _SUM not in metadata and not header.startswith(_START):
        return None
    place = len(_START)
    end = place + len(_NO_SUM)
    said = header[place:end].decode("latin-1")
    own = _loads(metadata.get(_KEY, "null").encode(), name)
    kind = own.get("format") if isinstance(own, dict) else None
    if header.startswith(_START):
        computed = f"{checksums.crc32(header[:place] + _NO_SUM.encode() + header[end:]):08x}"
        if said != computed:
            raise CheckpointError(
                f"load: {name} is damaged: its header has checksum {computed}, expected {said}. {_OLDER}"
            )
        if type(kind) is int and kind > FORMAT:
            raise CheckpointError(
                f"load: {name} has checkpoint format {kind}, this dynograd reads format {FORMAT}. Update dynograd."
            )
        if kind == FORMAT and isinstance(own.get("crc32"), dict) and "tree" in own:
            return own
    if kind == 1:
        raise CheckpointError(
            f"load: {name} has checkpoint format 1, whose header had no checksum; format {FORMAT} is read. Write it anew: the safetensors "
            f"library reads its tensors."
        )
    raise CheckpointError(f"load: {name} is damaged: what its header says of itself is incomplete. {_OLDER}")


def _loads(text: bytes, name: str, pairs: Any = None) -> Any:
    try:
        return json.loads(text, object_pairs_hook=pairs)
    except CheckpointError:
        raise
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"load: {name} is damaged: its header cannot be read ({error}). {_OLDER}") from None


def _diagnosis(raw: Any, problem: Any) -> str:
    """What a file that is not safetensors seems to be, and what to do."""
    start, size = bytes(raw[:9]), len(raw)
    if not size:
        return f"is empty (0 bytes). {_OLDER}"
    if start[:1] == b"\x80":
        return "is a pickle, which can run code, so it is not read. Convert it to safetensors where it was made."
    if size >= 9 and start[8:] == b"{" and int.from_bytes(start[:8], "little") < 1 << 32:
        return f"is truncated or damaged ({size} bytes; {problem}). {_OLDER}"
    return f"is not a checkpoint: expected a safetensors file, got {size} bytes that start with {start[:8]!r}."
