"""Changes of files: of any bytes, and of what a format has inside, whose checksums are then right again."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from dynograd.saving import checkpoint_files

__all__ = ["Change", "changed_bytes", "changed_checkpoint", "changed_gzip", "changed_head", "changed_json", "changed_safetensors", "changed_zip"]  # fmt: skip

Change = Callable[[bytes, random.Random], bytes]
NUMBERS = [-1, 0, 1, 255, 65535, 1 << 30, -(1 << 31), (1 << 31) - 1]
BYTES = b'\x00\xff\x7f\x80"{}[]():,0123456789-\\ <>|\t\n#'
WORDS: list[Any] = [
    None, True, -1, 0, 1, 7, 1 << 31, 1 << 40, 10**30, 0.5, float("nan"), "", "x", "os.system", "__class__", "../../etc/passwd",
    "/etc/passwd", "\0", "a" * 300, [], [[]], {}, [-1], {"kind": "tensor"}, {"kind": "object", "of": "os.system"}, {"value": 10**6},
    {"dtype": "x"}, {"slice": []}, {"device": "cuda:99"}, "F64", "torch.nn.Linear",
]  # fmt: skip


def changed_bytes(raw: bytes, chance: random.Random) -> bytes:
    """`raw` with one to four changes of bits, bytes, blocks, lengths and digits; most at the beginning or the end, where formats have numbers."""
    changed = bytearray(raw)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        if len(changed) < 8:
            break
        region = chance.choice([len(changed), len(changed), min(len(changed), 300)])
        begin = chance.randrange(region) if chance.random() < 0.7 else len(changed) - 1 - chance.randrange(region)
        end, other = begin + chance.choice([1, 2, 4, 8, 64, 500]), chance.randrange(len(changed))
        kind = chance.randrange(10)
        if kind == 0:
            changed[begin] ^= 1 << chance.randrange(8)
        elif kind == 1:
            changed[begin] = chance.choice(BYTES)
        elif kind == 2:
            changed[begin:end] = chance.randbytes(end - begin)
        elif kind == 3:
            del changed[begin:end]
        elif kind == 4:
            changed[other:other] = changed[begin:end]
        elif kind == 5:
            del changed[begin:]
        elif kind == 6:
            changed[begin:end] = changed[other : other + end - begin]
        elif kind == 7:
            changed[begin : begin + 4] = struct.pack("<i", chance.choice(NUMBERS))
        elif kind == 8:
            changed[begin : begin + 8] = struct.pack("<q", chance.choice(NUMBERS) << chance.choice([0, 20, 31]))
        else:
            digits = [place for place in range(len(changed)) if 48 <= changed[place] < 58]
            if digits:
                changed[chance.choice(digits)] = chance.choice(b"0123456789-")
    return bytes(changed)


# --- what a format has inside -------------------------------------------------------------------------------------------------


def changed_gzip(raw: bytes, chance: random.Random) -> bytes:
    """The content changed, and packed again."""
    return gzip.compress(changed_bytes(gzip.decompress(raw), chance), mtime=0)


def changed_zip(raw: bytes, chance: random.Random) -> bytes:
    """An archive whose entries are changed, renamed, doubled, left out, put in another order or compressed."""
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        entries = [(info.filename, archive.read(info), info.compress_type) for info in archive.infolist()]
    place = chance.randrange(len(entries))
    name, content, method = entries[place]
    kind = chance.randrange(12)
    if kind == 0:
        name = chance.choice(["../" + name, "/" + name, name + "/", name.upper(), "", "a/../" + name, "con:" + name])
    elif kind == 1:
        method = zipfile.ZIP_STORED if method else zipfile.ZIP_DEFLATED
    elif kind == 2:
        del entries[place]
        place = -1
    elif kind == 3:
        content = chance.choice(entries)[1]
    elif kind == 4:
        chance.shuffle(entries)
        place = -1
    else:
        content = changed_bytes(content, chance)
    if place >= 0:
        entries[place] = name, content, method
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content, method in entries:
            info = zipfile.ZipInfo(name or "x")
            info.filename, info.compress_type = name, method
            archive.writestr(info, content)
    return packed.getvalue()


def places_in(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """The paths of all values in nested lists and dicts."""
    yield path
    if isinstance(value, (list, dict)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(part, (*path, key))


def changed_tree(tree: Any, chance: random.Random) -> Any:
    """What JSON says, with one value left out, exchanged for another one of the same tree or for an odd one, or a key renamed."""
    tree = json.loads(json.dumps(tree))
    paths = [path for path in places_in(tree) if path]
    if not paths:
        return chance.choice(WORDS)
    path = chance.choice(paths)
    owner = tree
    for key in path[:-1]:
        owner = owner[key]
    kind = chance.random()
    if kind < 0.15:
        del owner[path[-1]]
    elif kind < 0.25 and isinstance(owner, dict):
        owner[str(chance.choice(WORDS))] = owner.pop(path[-1])
    elif kind < 0.45:
        other = tree
        for key in chance.choice(paths):
            other = other[key]
        owner[path[-1]] = json.loads(json.dumps(other))
    elif kind < 0.55 and isinstance(owner[path[-1]], str) and owner[path[-1]][:1] in ("{", "["):  # JSON within JSON
        owner[path[-1]] = json.dumps(changed_tree(json.loads(owner[path[-1]]), chance))
    else:
        owner[path[-1]] = chance.choice(WORDS)
    return tree


def changed_json(raw: bytes, chance: random.Random) -> bytes:
    """Another text of JSON."""
    return json.dumps(changed_tree(json.loads(raw), chance)).encode()


def changed_safetensors(raw: bytes, chance: random.Random) -> bytes:
    """A file without checksums, with another header of the right length."""
    length = int.from_bytes(raw[:8], "little")
    header = changed_json(raw[8 : 8 + length], chance)
    return len(header).to_bytes(8, "little") + header + raw[8 + length :]


def changed_checkpoint(raw: bytes, chance: random.Random) -> bytes:
    """A file of ours with another header or other bytes of tensors, and checksums that are right again."""
    length = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    kind = chance.random()
    own = json.loads(header["__metadata__"]["dynograd"])
    if kind < 0.6:
        own["tree"] = changed_tree(own["tree"], chance)
    elif kind < 0.8:
        metadata = header.pop("__metadata__")
        header = {"__metadata__": metadata, **changed_tree(header, chance)} if header else {"__metadata__": metadata}
    elif len(data) >= 8:
        data = (changed_bytes(data, chance) + bytes(len(data)))[: len(data)]
    for name, place in header.items():
        try:
            first, last = place["data_offsets"]
            own["crc32"][name] = f"{zlib.crc32(data[first:last]):08x}"
        except (KeyError, TypeError, ValueError):
            continue  # what was changed is no tensor any more
    header["__metadata__"] = {"dynograd.crc32": "0" * 8, "dynograd": json.dumps(own)}
    text = {"__metadata__": header.pop("__metadata__"), **header}
    sealed = checkpoint_files._with_own_checksum(
        checkpoint_files._padded(json.dumps(text, separators=(",", ":")).encode())
    )
    return len(sealed).to_bytes(8, "little") + sealed + data


def changed_head(raw: bytes, chance: random.Random) -> bytes:
    """A pack of kernels whose head is another one, with its digest."""
    import hashlib

    from dynograd.kernels.build import packs

    start = packs._START
    length = int.from_bytes(raw[start - 8 : start], "little")
    head = changed_bytes(raw[start : start + length], chance)
    magic = raw[: len(packs._MAGIC)]
    return magic + hashlib.sha256(head).digest() + len(head).to_bytes(8, "little") + head + raw[start + length :]
