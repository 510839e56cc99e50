"""`python -m dynograd.convert a.pt b.safetensors`: checkpoints of PyTorch, or of `save`, as safetensors files. No code in them is run.

A folder of shards (model.safetensors.index.json, pytorch_model.bin.index.json) is read file by file. Into a folder, or with
--max-shard-size, shards are written.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from dynograd.saving import sharding
from dynograd.saving.serialization import load, save
from dynograd.utils import programs

__all__ = ["main"]

_EPILOG = """examples:
  python -m dynograd.convert model.pt model.safetensors
  python -m dynograd.convert pytorch_model/ safetensors_model/
  python -m dynograd.convert model.pt shards/ --max-shard-size 2GB
  python -m dynograd.convert shards/ model.safetensors
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; gives 0, or 2 with a message when something cannot be read or written."""
    parser = argparse.ArgumentParser(
        prog="python -m dynograd.convert",
        description=(__doc__ or "").replace("`", ""),
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "source", help="a file of torch.save, dynograd.save or safetensors; a folder of shards, or its index"
    )
    parser.add_argument(
        "target", help="the safetensors file to write; a folder (it exists, or the name ends in /) for shards"
    )
    parser.add_argument(
        "--max-shard-size", help="the largest file, such as 5GB or 200MiB; the target is a folder then (5GB)"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress, and no words when all went well")
    given = parser.parse_args(arguments)
    return programs.run(lambda: _convert_and_tell(given), "convert", (TypeError, ValueError, RuntimeError))


def _convert_and_tell(given: argparse.Namespace) -> None:
    written = _convert(given)
    if not given.quiet:
        for path in written:
            print(f"{path}: {os.path.getsize(path)} bytes")


def _convert(given: argparse.Namespace) -> list[str]:
    target = given.target
    into_folder = given.max_shard_size is not None or target.endswith(("/", os.sep)) or os.path.isdir(target)
    if not into_folder and not target.endswith(".safetensors"):
        raise ValueError(
            f"the target {target!r} is neither a .safetensors file nor a folder. Name it so, or end it with / for a folder of shards."
        )
    home = given.source if os.path.isdir(given.source) else os.path.dirname(given.source)
    if into_folder and sharding.is_sharded(given.source) and os.path.abspath(home) == os.path.abspath(target):
        raise ValueError(f"the target {target!r} is the folder of the source. Write into another one.")
    if not into_folder:
        save(_whole(given), target)
        return [target]
    size = sharding.size_of(given.max_shard_size or "5GB")
    names = sharding.save(_named(given), target, size, lambda tensors, path: save(tensors, path), "convert")
    return [os.path.join(target, name) for name in names]


def _parts(given: argparse.Namespace) -> Iterator[Any]:
    """What the files of the source hold, one after the other, with their progress on a terminal."""
    if not sharding.is_sharded(given.source):
        yield load(given.source, map_location="cpu")
        return
    shards = sharding.Shards(given.source, lambda path: load(path, map_location="cpu"))
    if given.quiet or not sys.stderr.isatty():
        yield from (held for _, held in shards)
        return
    from tqdm import tqdm

    for _, held in tqdm(shards, total=len(shards.files), unit="file", desc="convert"):
        yield held


def _whole(given: argparse.Namespace) -> Any:
    parts = list(_parts(given))
    if len(parts) == 1:
        return parts[0]
    return {name: one for part in parts for name, one in part.items()}


def _named(given: argparse.Namespace) -> Iterator[tuple[str, Any]]:
    """The tensors by name; at most one file of the source is in memory."""
    for part in _parts(given):
        if not isinstance(part, dict):
            raise TypeError(
                f"{given.source} holds a {type(part).__name__}, and only dicts of tensors can be spread over files."
            )
        yield from part.items()


if __name__ == "__main__":
    sys.exit(main())
