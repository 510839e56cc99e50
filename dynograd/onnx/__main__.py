"""`python -m dynograd.onnx show model.onnx`: what is in a model."""

from __future__ import annotations

import argparse
from pathlib import Path

from dynograd.onnx.listing import listing
from dynograd.onnx.packages import onnx_package

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Runs the program; 1 for a file that is no model."""
    parser = argparse.ArgumentParser(prog="python -m dynograd.onnx", description="Looks at ONNX models.")
    commands = parser.add_subparsers(dest="command", required=True)
    show = commands.add_parser("show", help="list inputs, outputs, weights and nodes")
    show.add_argument("file", type=Path)
    file = parser.parse_args(arguments).file
    onnx = onnx_package("onnx", "python -m dynograd.onnx")
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model(str(file), load_external_data=False)
    except (OSError, DecodeError) as error:
        print(f"dynograd.onnx show: {file} is no ONNX model that can be read: {error}")
        return 1
    print(listing(model))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
