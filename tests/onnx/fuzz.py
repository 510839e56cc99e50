"""Damaged ONNX files: each either loads or is refused with OnnxError, within seconds, and none of its names is run as code.

`python -m tests.onnx.fuzz 10000 --seed 0` damages the models of ONNX's own node tests; a process that dies is reported with the number of its file.
"""

import argparse
import functools
import random
import signal
import subprocess
import sys
import traceback
import warnings

import dynograd
import dynograd.onnx

CHUNK = 2500  # files for each process
SECONDS = 20  # in which a file is read or refused
NUMBERS = (-(2**63), -(2**31), -1, 0, 1, 2, 7, 255, 2**31, 2**40, 2**63 - 1)
WORDS = (
    "",
    "x",
    "Loop",
    "If",
    "Conv",
    "../../etc/passwd",
    "a.b.c",
    "\n",
    "import",
    "__import__('os').abort()",
    "x)\n    __import__('os').abort()  #",
    "\u00e9",
)


@functools.cache
def sources():
    """The bytes of small models, one for each kind of node and number of inputs."""
    from tests.onnx.node_tests import cases

    kinds = {}
    for case in cases():
        if case.model is not None:
            text = case.model.SerializeToString()
            kind = tuple(sorted({node.op_type for node in case.model.graph.node})), len(case.model.graph.input)
            if kind not in kinds or len(text) < len(kinds[kind]):
                kinds[kind] = text
    return sorted((text for text in kinds.values() if len(text) < 20_000), key=lambda text: (len(text), text))


def damaged(source, generator):
    """The bytes with some of them changed, cut out or put in, or with fields of the message set to other values."""
    data = source
    if generator.random() < 0.6:
        import onnx

        model = onnx.ModelProto.FromString(source)
        for _ in range(generator.randint(1, 3)):
            _change(model, generator)
        data = model.SerializeToString()
    if data and (data is source or generator.random() < 0.1):
        data = bytearray(data or b"\0")
        for _ in range(generator.randint(1, 6)):
            place, kind = generator.randrange(len(data)), generator.randrange(4)
            if kind == 0:
                data[place] = generator.randrange(256)
            elif kind == 1:
                data[place : place + generator.randint(1, 8)] = b"\0"
            elif kind == 2:
                data[place:place] = generator.randbytes(generator.randint(1, 8))
            else:
                data = data[: place + 1]
    return bytes(data)


def _change(message, generator):
    """Changes a field somewhere within the message."""
    while True:
        fields = message.DESCRIPTOR.fields
        filled = [field for field, _ in message.ListFields()]
        field = generator.choice(filled if filled and generator.random() < 0.9 else fields)
        repeated, value = field.is_repeated, getattr(message, field.name)
        if field.message_type is not None:
            if repeated:
                if not value:
                    value.add()
                    return
                kind = generator.randrange(12)
                if kind == 0:
                    del value[generator.randrange(len(value))]
                    return
                if kind == 1:
                    value.add().CopyFrom(generator.choice(value))
                    return
                message = generator.choice(value)
            else:
                message = value
            continue
        new = _value(field, generator)
        if not repeated:
            if generator.random() < 0.1:
                message.ClearField(field.name)
            else:
                setattr(message, field.name, new)
        elif not value or generator.random() < 0.2:
            value.append(new)
        elif generator.random() < 0.3:
            del value[generator.randrange(len(value))]
        else:
            value[generator.randrange(len(value))] = new
        return


def _value(field, generator):
    if field.cpp_type == field.CPPTYPE_STRING:
        word = generator.choice(WORDS)
        return word.encode() if field.type == field.TYPE_BYTES else word
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return generator.choice((0.0, -1.0, 1e30, float("nan"), float("inf")))
    if field.enum_type is not None:
        return generator.choice(field.enum_type.values).number
    low, high = (-(2**31), 2**31 - 1) if field.cpp_type == field.CPPTYPE_INT32 else (-(2**63), 2**63 - 1)
    if field.cpp_type in (field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        low = 0
    return min(max(generator.choice(NUMBERS), low), high)


def check(numbers, seed, texts=None):
    """How many of the files were refused, and {the last lines of another error's traceback: number of a file}."""
    refused, errors = 0, {}
    for number in numbers:
        generator = random.Random(f"{seed} {number}")
        data = damaged(generator.choice(texts or sources()), generator)
        signal.alarm(SECONDS)
        try:
            dynograd.onnx.load(data)
        except dynograd.errors.OnnxError:
            refused += 1
        except Exception as error:
            errors["".join(traceback.format_exception(error)[-4:])] = number
        finally:
            signal.alarm(0)
    return refused, errors


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.onnx.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.first is not None:
        warnings.simplefilter("ignore")
        refused, errors = check(range(options.first, options.first + options.count), options.seed)
        for text, number in errors.items():
            print(f"file {number}:\n{text}", file=sys.stderr)
        print(refused)
        return int(bool(errors))
    refused, bad = 0, 0
    for first in range(0, options.count, CHUNK):
        count = min(CHUNK, options.count - first)
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.onnx.fuzz", str(count)]
        done = subprocess.run(
            [*command, "--seed", str(options.seed), "--first", str(first)], capture_output=True, text=True
        )
        if done.returncode:
            bad += 1
            print(f"files from {first} on: a process ended with {done.returncode}\n{done.stderr[-9000:]}")
        else:
            refused += int(done.stdout.split()[-1])
            print(f"{first + count} files, {refused} refused", flush=True)
    return int(bool(bad))


if __name__ == "__main__":
    raise SystemExit(main())
