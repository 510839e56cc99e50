"""Programs in files: other processes without the model's Python, damaged and forged files, and the command."""

import contextlib
import importlib
import io
import json
import os
import random
import subprocess
import sys
import textwrap

import pytest

import dynograd as torch
from dynograd import nn
from dynograd.base.files import Source, Stream
from dynograd.errors import DynogradError, ProgramError
from dynograd.export.__main__ import main
from dynograd.saving import checkpoint_files
from tests.export.leaves import assert_same_bits

MODEL = """
import dynograd as torch
from dynograd import nn

class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.cell, self.head = nn.Embedding(20, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 20)

    def forward(self, tokens):
        return {"scores": self.head(torch.relu(self.cell(self.table(tokens))[0])), "lengths": torch.arange(tokens.shape[1])}
"""


def run(program, *arguments, folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_program_runs_in_a_process_without_the_models_source(tmp_path):
    save = """
        import sys
        exec(open("model.py").read())
        torch.manual_seed(0)
        model = Writer().eval()
        torch.export.save_program(model, (torch.tensor([[1, 2, 3]]),), "model.dg", dynamic_shapes=({0: "n", 1: "t"},))
        tokens = torch.arange(40).reshape(4, 10) % 20
        with torch.no_grad():
            torch.save(model(tokens), "expected.safetensors")
    """
    (tmp_path / "model.py").write_text(MODEL)
    run(save, folder=tmp_path)
    (tmp_path / "model.py").unlink()
    load = """
        import sys
        import dynograd as torch
        program = torch.export.load_program("model.dg")
        expected = torch.load("expected.safetensors")
        result = program(torch.arange(40).reshape(4, 10) % 20)
        assert all([(result[name].numpy() == expected[name].numpy()).all() for name in expected])
        print([name for name in ("dynograd.nn", "dynograd.plans", "dynograd.ragged", "dynograd.overrides") if name in sys.modules])
        print(torch.kernel_cache_statistics()["compiled"])
    """
    loaded, compiled = run(load, folder=tmp_path).splitlines()
    assert loaded == "[]"  # what runs a program is small
    assert compiled == "0"  # the process that wrote it has compiled what it needs


def test_weights_of_two_processes_are_the_files_pages(tmp_path):
    path = tmp_path / "wide.dg"
    torch.export.save_program(nn.Linear(300, 300), (torch.ones(1, 300),), path)
    program = torch.export.load_program(path)
    weight = program.weights[0].tensor
    before = path.read_bytes()
    weight.zero_()  # a copy of the page, the file stays
    assert path.read_bytes() == before and not weight.any()


def test_the_file_is_safetensors_for_others(tmp_path):
    from safetensors.numpy import load_file

    path = tmp_path / "linear.dg"
    model = nn.Linear(3, 2)
    torch.export.save_program(model, (torch.ones(1, 3),), path)
    arrays = load_file(path)
    assert sorted(arrays) == ["bias", "weight"] and (arrays["weight"] == model.weight.detach().numpy()).all()


def saved(program=None):
    file = io.BytesIO()
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.LayerNorm(2)).eval()
    torch.export.save_program(program or model, (torch.ones(4, 3),), file, dynamic_shapes=({0: "n"},))
    return file.getvalue()


def load(content):
    return torch.export.load_program(io.BytesIO(content))


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "is empty"),
        (b"hello, this is no program", "is not a checkpoint"),
        (b"\x80\x04\x95pickled", "is a pickle, which can run code"),
        (saved()[:200], "truncated or damaged"),
        (saved()[:-1], "truncated or damaged"),
        (saved()[:-1] + b"\xff", "have checksum"),
    ],
)
def test_files_that_are_none(content, message):
    with pytest.raises(ProgramError, match=message):
        load(content)


def test_a_file_of_tensors_is_told_from_a_program(tmp_path):
    torch.save({"x": torch.ones(2)}, tmp_path / "state.safetensors")
    with pytest.raises(ProgramError, match=r"holds no program. dynograd.load reads tensors"):
        torch.export.load_program(tmp_path / "state.safetensors")
    with pytest.raises(FileNotFoundError):
        torch.export.load_program(tmp_path / "nothing.dg")


def test_what_cannot_be_written_leaves_the_old_file(tmp_path):
    program = torch.export.export(torch.relu, (torch.ones(2),))
    with pytest.raises(ProgramError, match="there is no folder"):
        torch.export.save(program, tmp_path / "no" / "folder.dg")
    wide = torch.export.export(lambda x: x + torch.ones(2, dtype=torch.complex128), (torch.ones(2),))
    torch.export.save(wide, tmp_path / "model.dg")  # made by a call, no weight
    constant = torch.ones(2, dtype=torch.complex128)
    with pytest.raises(ProgramError, match="constant is complex128, which safetensors does not have"):
        torch.export.save_program(lambda x: x + constant, (torch.ones(2),), tmp_path / "model.dg")
    assert torch.export.load(tmp_path / "model.dg")(torch.ones(2)).dtype == torch.complex128
    with pytest.raises(ProgramError, match="extra_files and opset_version are not here"):
        torch.export.save(program, tmp_path / "model.dg", extra_files={"a": "b"})
    with pytest.raises(TypeError, match="expected a path or an open file"):
        torch.export.save_program(torch.relu, (torch.ones(2),))


# --- mutations ----------------------------------------------------------------------------------------------------------------


def mutated(content, draw):
    """Bits, bytes, blocks, cuts, insertions."""
    data, kind, place = bytearray(content), draw.randrange(5), draw.randrange(len(content))
    if kind == 0:
        data[place] ^= 1 << draw.randrange(8)
    elif kind == 1:
        data[place] = draw.randrange(256)
    elif kind == 2:
        data[place : place + 8] = bytes([draw.randrange(256) for _ in range(8)])
    elif kind == 3:
        del data[place : place + draw.randrange(1, 40)]
    else:
        data[place:place] = bytes([draw.randrange(256) for _ in range(draw.randrange(1, 9))])
    return bytes(data)


COUNTS = [300, pytest.param(10_000, marks=pytest.mark.slow)]


@pytest.mark.parametrize("count", COUNTS)
def test_mutated_files_are_refused_with_one_kind_of_error(count):
    content, draw, unchanged = saved(), random.Random(5), 0
    x = torch.ones(2, 3)
    expected = load(content)(x)
    for _ in range(count):
        changed = mutated(content, draw)
        try:
            result = load(changed)(x)
        except ProgramError:
            continue
        assert torch.equal(result, expected)  # bytes as they were
        assert changed == content
        unchanged += 1
    print(
        f"{count} mutated programs: {count - unchanged} ProgramErrors, {unchanged} with the bytes of the original, 0 other"
    )


ODD = [None, True, -1, 10**30, 0.5, "", "x", "os.system", "__class__", [], [[]], {}, {"value": -1}, {"value": 10**6}, {"number": 3}, {"dtype": "x"},
       {"tuple": 3}, {"slice": []}, {"dict": [[[], 1]]}, {"__class__": 1}, {"device": "cuda:99"}, {"size": [-5]}, {"float": "x"}]  # fmt: skip


def places_in(value, path=()):
    yield path
    if isinstance(value, (list, dict)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places_in(part, (*path, key))


def forged(content, draw):
    """The file with one value of its graph exchanged, and checksums that are right again."""
    with Source(content) as source:
        entries, tree = checkpoint_files.read(source, "it")
    tree = json.loads(json.dumps(tree))
    path = draw.choice([path for path in places_in(tree) if path])
    owner = tree
    for key in path[:-1]:
        owner = owner[key]
    if draw.random() < 0.2:
        del owner[path[-1]]
    else:
        owner[path[-1]] = draw.choice(ODD) if draw.random() < 0.8 else draw.choice([-2, 0, 1, 2, 3, 7, 2**40])
    file = io.BytesIO()
    checkpoint_files.write(entries, json.dumps(tree), Stream(file))
    return file.getvalue()


TABLE = torch.ones(9, 3)


def many_kinds(x, places):
    """A function with arguments of many kinds."""
    zeros = torch.zeros(x.shape[0], 3)
    zeros[:, 1] = 1
    joined = torch.cat([x, zeros]).view(-1, 3).transpose(0, 1)
    values = nn.functional.embedding(places, TABLE)[:, : x.shape[0] // 2].to(torch.float64)
    roots = torch.arange(x.shape[0]).float() / x.shape[0] ** 0.5
    return {
        "joined": joined,
        "sorted": (values.sort(1), roots),
        "strided": x.as_strided((2, 2), (1, 1)),
        "filled": torch.full((2,), float("inf")),
        "branch": torch.cond(x.sum() > 0, lambda x: (x + TABLE[0]) * x.shape[0], lambda x: x, (x,)),
        "mapped": torch.vmap(lambda row, scale: row * scale, in_dims=(0, None))(x, x[0]),
        "packed": nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_padded_sequence(x[None, :, :], places[:1], True)),
    }


@pytest.mark.parametrize("count", COUNTS)
def test_forged_graphs_with_right_checksums_are_refused_with_errors_of_the_library(count):
    torch.manual_seed(0)
    inputs = (torch.ones(4, 3), torch.tensor([1, 2, 3]))
    file = io.BytesIO()
    torch.export.save_program(many_kinds, inputs, file, dynamic_shapes=({0: "n"}, None))
    content, draw, refused = file.getvalue(), random.Random(6), 0
    for _ in range(count):
        changed = forged(content, draw)
        try:
            load(changed)(*inputs)
        except ProgramError:
            refused += 1
        except (DynogradError, TypeError) as error:  # inputs that the forged program wants otherwise
            assert "expected" in str(error)
            refused += 1
    print(f"{count} forged programs: {refused} refused, {count - refused} run otherwise, 0 other errors")
    assert refused > count // 2


FORBIDDEN = (
    "exec",
    "compile",
    "import",
    "os.system",
    "os.exec",
    "subprocess.",
    "socket.",
    "pickle.",
    "ctypes.dlopen",
    "marshal.",
)
audited = None


def audit(event, arguments):
    if audited is not None and event.startswith(FORBIDDEN):
        audited.append(f"{event} {arguments!r:.100}")


sys.addaudithook(audit)


def test_loading_runs_no_code():
    global audited
    content, draw = saved(), random.Random(7)
    contents = [content, *[forged(content, draw) for _ in range(100)], *[mutated(content, draw) for _ in range(100)]]
    for name in ("os.system", "nn.functional.os", "Tensor.apply_", "linalg.importlib"):
        contents.append(with_call(name))
    importlib.import_module("dynograd.nn.functional")  # whose functions files may name
    for changed in contents:
        audited = []
        try:
            with contextlib.suppress(ProgramError):
                load(changed)
        finally:
            events, audited = audited, None
        assert not events


def with_call(name, args=()):
    program = torch.export.export(torch.relu, (torch.ones(2),))
    program.spec["nodes"][0][:2] = [name, [{"value": 0}, *args]]
    return saved(program)


@pytest.mark.parametrize(
    "name",
    "os.system eval __import__ torch.load torch.save torch.compile Tensor.apply_ Tensor.numpy Tensor.set_ Tensor.__reduce_ex__ torch.__getattr__ nn.Linear "
    "linalg.os torch.autograd.grad subprocess.run Tensor.__class__ ragged.tensors ragged.__class__ vmap.functools higher_order.sys packed.numpy packed.kernel".split(),
)  # fmt: skip
def test_names_lead_to_the_table_of_ops_and_nowhere_else(name):
    with pytest.raises(ProgramError, match=f"expected the name of an op, got '{name}'"):
        load(with_call(name))


def test_other_formats_and_ops_are_told():
    with pytest.raises(ProgramError, match="expected the name of an op, got 'folded_relu'.*export it anew"):
        load(with_call("folded_relu"))
    content = saved()
    with Source(content) as source:
        entries, tree = checkpoint_files.read(source, "it")
    tree["format"], file = 99, io.BytesIO()
    checkpoint_files.write(entries, json.dumps(tree), Stream(file))
    with pytest.raises(
        ProgramError, match="program format 99, of dynograd .*; this is dynograd .*, which reads format 1"
    ):
        load(file.getvalue())


# --- the command --------------------------------------------------------------------------------------------------------------


def test_show_lists_what_is_in_a_program(tmp_path, capsys):
    path = tmp_path / "model.dg"
    path.write_bytes(saved())
    assert main(["show", str(path)]) == 0
    text = capsys.readouterr().out
    for line in (
        f"{path}: {path.stat().st_size:,} bytes",
        "Sequential: 3 calls (1 linear, 1 relu, 1 layer_norm)",
        "4 weights, 12 numbers, 48 bytes",
        "  input: float32(n, 3)",
        "  n: 1 or more",
        "  0.weight: float32(2, 3), 24 bytes, parameter",
        "  v1 = torch.relu(v0)   # test_files.py:",
        "  return v2",
    ):
        assert line in text
    assert main(["show", "--code", str(path)]) == 0
    assert capsys.readouterr().out.startswith("def Sequential(input):  # float32(n, 3)\n")


def test_show_of_no_program(tmp_path, capsys):
    assert main(["show", str(tmp_path / "nothing.dg")]) == 1
    (tmp_path / "text.dg").write_text("text")
    assert main(["show", str(tmp_path / "text.dg")]) == 1
    assert "is not a checkpoint" in capsys.readouterr().out


def test_a_second_export_gives_the_same_file():
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    first, second = [saved(torch.export.export(model, (torch.ones(1, 3),))) for _ in range(2)]
    assert first == second


def test_the_bits_of_a_program_that_was_written_twice():
    content = saved()
    again = io.BytesIO()
    torch.export.save(load(content), again)
    assert again.getvalue() == content
    assert_same_bits(load(again.getvalue())(torch.ones(2, 3)), load(content)(torch.ones(2, 3)))


# --- kernels ------------------------------------------------------------------------------------------------------------------

LARGE = """
    import sys
    import dynograd as torch
    torch.manual_seed(0)
    x = torch.randn(300, 200)
    def counts():
        statistics = torch.kernel_cache_statistics()
        return statistics["compiled"], statistics["packed"]
"""


@pytest.mark.slow  # kernels of what is not the program are compiled in an empty cache
def test_a_program_runs_from_packed_kernels_alone(tmp_path, monkeypatch):
    write = f"""{LARGE}
    program = torch.export.save_program(torch.nn.Softmax(-1), (x[:3],), "softmax.dg", dynamic_shapes=(dict([(0, "n")]),))
    torch.save(program(x), "expected.safetensors")
    print(program.save_kernels("kernels").name.endswith(".pack"))
    """
    assert run(write, folder=tmp_path).split() == ["True"]
    monkeypatch.setenv("DYNOGRAD_CACHE_DIR", str(tmp_path / "empty"))
    read = f"""{LARGE}
    program = torch.export.load_program("softmax.dg", kernels=sys.argv[1] or None, compiling=False)
    before, expected = counts(), torch.load("expected.safetensors")
    try:
        result, after = program(x), counts()
        print(torch.equal(result, expected), "compiled", after[0] - before[0], "packed", after[1] > before[1])
    except torch.errors.ProgramError as error:
        print(error)
    """
    assert run(read, "kernels", folder=tmp_path).strip() == "True compiled 0 packed True"
    without = run(read, "", folder=tmp_path)
    assert (
        "Softmax: softmax" in without
        and "is neither in a pack nor in the cache, and is not to be compiled here" in without
    )
    (tmp_path / "kernels").chmod(0o777)
    open_to_others = run(
        "import warnings; warnings.simplefilter('ignore')\n" + textwrap.dedent(read), "kernels", folder=tmp_path
    )
    assert "is neither in a pack nor in the cache" in open_to_others
