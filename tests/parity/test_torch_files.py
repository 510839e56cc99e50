"""Files that PyTorch itself saved come back as they were."""

import argparse
import collections
import datetime
import decimal
import fractions
import io
import json
import pathlib
import random
import warnings

import numpy
import pytest
import torch

import dynograd as dg
from dynograd import convert
from dynograd.saving import torch_file_writer
from tests.saving.test_torch_writing import checkpoint, outline

FORMATS = {
    "zip": {},
    "legacy": {"_use_new_zipfile_serialization": False},
    "protocol 4": {"pickle_protocol": 4},
    "protocol 5": {"pickle_protocol": 5},
}


def through(value, form, **options):
    file = io.BytesIO()
    torch.save(value, file, **FORMATS[form])
    file.seek(0)
    return dg.load(file, **options)


def same(found, expected):
    if isinstance(expected, torch.Tensor):
        assert found.dtype.name == str(expected.dtype).split(".")[1] and found.requires_grad == expected.requires_grad
        assert tuple(found.shape) == tuple(expected.shape)
        assert (type(found) is dg.nn.Parameter) == (type(expected) is torch.nn.Parameter)
        if not expected.is_conj():
            assert found.stride() == expected.stride()
        raw = (
            expected.detach().resolve_conj().contiguous().view(torch.uint8)
            if expected.dim()
            else expected.detach().reshape(1).view(torch.uint8)
        )
        assert found.detach().contiguous().numpy().tobytes() == raw.numpy().tobytes()
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            same(found[key], expected[key])
    elif isinstance(expected, (list, tuple)):
        assert type(found).__name__ == type(expected).__name__ and len(found) == len(expected)
        for one, two in zip(found, expected):
            same(one, two)
    else:
        assert found == expected


@pytest.mark.parametrize("form", FORMATS)
def test_a_model_with_its_optimizer(form):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(16, 2)
    )
    model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(2, 3, 4, 4)).sum().backward()
    optimizer.step()
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "parameters": list(model.parameters()),
    }
    found = through(state, form)
    same(found, state)
    assert found["model"]._metadata == model.state_dict()._metadata
    twin = dg.nn.Sequential(dg.nn.Conv2d(3, 4, 3), dg.nn.BatchNorm2d(4), dg.nn.Flatten(), dg.nn.Linear(16, 2))
    twin.load_state_dict(found["model"])
    x = torch.randn(2, 3, 4, 4)
    assert dg.allclose(
        twin.eval()(dg.from_numpy(x.numpy())), dg.from_numpy(model.eval()(x).detach().numpy()), atol=1e-5
    )


DTYPES = "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64 complex128 uint16 uint32 uint64 float8_e5m2"


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", [*DTYPES.split(), "float8_e4m3fn"])
def test_dtypes(name, form):
    made = torch.tensor([[0, 1, 2], [1, 0, 3]]).to(getattr(torch, name))
    same(through([made, made.t(), made[0, 1]], form), [made, made.t(), made[0, 1]])


@pytest.mark.parametrize("form", FORMATS)
def test_memory_is_shared_again(form):
    base = torch.arange(12.0)
    views = [
        base,
        base.view(3, 4).t(),
        base[2:10:3],
        torch.ones(1).expand(4),
        torch.zeros(0, 3),
        torch.randn(3, dtype=torch.complex64).conj(),
    ]
    found = through(views, form)
    same(found, views)
    found[0][5] = -1.0
    assert found[1][1, 1].item() == -1.0 and found[2][1].item() == -1.0


def test_tied_parameters_stay_one_object():
    layer = torch.nn.Linear(2, 2)
    found = through({"a": layer.weight, "b": layer.weight}, "zip")
    assert found["a"] is found["b"]


def test_without_checksums():
    torch.serialization.set_crc32_options(False)
    try:
        same(through(torch.arange(5), "zip"), torch.arange(5))
    finally:
        torch.serialization.set_crc32_options(True)


def test_a_whole_module_is_refused():
    with pytest.raises(dg.errors.CheckpointError, match=r"torch.nn.modules.linear.Linear.*state_dict"):
        through(torch.nn.Linear(1, 1), "zip", weights_only=False)


def test_torchscript_is_refused(tmp_path):
    with pytest.warns(DeprecationWarning):
        torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), tmp_path / "x.pt")
    with pytest.raises(dg.errors.CheckpointError, match="TorchScript"):
        dg.load(tmp_path / "x.pt")


def test_shards_of_pickled_files(tmp_path):
    """`pytorch_model.bin.index.json`, as Hugging Face's libraries wrote it, read and converted."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(7, 9), torch.nn.Linear(9, 3))
    state = model.state_dict()
    names = [f"pytorch_model-{number:05d}-of-00002.bin" for number in (1, 2)]
    parts = [{key: one for key, one in state.items() if key.startswith(start)} for start in ("0.", "1.")]
    for name, part in zip(names, parts):
        torch.save(part, tmp_path / name)
    weight_map = {key: name for name, part in zip(names, parts) for key in part}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    twin = dg.nn.Sequential(dg.nn.Linear(7, 9), dg.nn.Linear(9, 3))
    target = tmp_path / "converted"
    assert convert.main([str(tmp_path), str(target), "--max-shard-size", "200", "--quiet"]) == 0
    for path in (tmp_path, tmp_path / "pytorch_model.bin.index.json", target):
        twin.load_state_dict(dg.load(path))
        x = torch.randn(4, 7)
        numpy.testing.assert_allclose(
            twin(dg.from_numpy(x.numpy())).detach().numpy(), model(x).detach().numpy(), rtol=1e-5, atol=1e-6
        )
    from safetensors.torch import load_file

    found = {key: one for path in target.glob("*.safetensors") for key, one in load_file(path).items()}
    assert found.keys() == state.keys() and all(torch.equal(found[key], one) for key, one in state.items())


@pytest.mark.parametrize("form", FORMATS)
def test_values_that_programs_keep_beside_their_weights(form):
    x = torch.eye(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = {
            "log": collections.defaultdict(list, {"loss": [1.0]}),
            "recent": collections.deque([1, 2], maxlen=2),
            "args": argparse.Namespace(lr=0.1, out=pathlib.Path("runs")),
            "when": datetime.datetime(2020, 1, 2, tzinfo=datetime.UTC),
            "third": fractions.Fraction(1, 3),
            "price": decimal.Decimal("1.10"),
            "part": slice(1, 5),
            "order": range(3),
            "kind": numpy.dtype("float32"),
            "generator": random.getstate(),
        }
        tensors = [x.to_sparse(), x.to_sparse_csr(), x.to_sparse_csc(), torch.nested.nested_tensor([x[0], x[1, :2]])]
        found = through([kept, tensors, [torch.strided, torch.sparse_coo], x.untyped_storage().tolist()], form)
        assert found[0] == kept and found[2] == [dg.strided, dg.sparse_coo]
        for one, wanted in zip(found[1][:3], tensors):
            assert str(one.layout).split(".")[1] == str(wanted.layout).split(".")[1]
            assert one.to_dense().tolist() == x.tolist()
        assert [row.tolist() for row in found[1][3].unbind()] == [[1, 0, 0], [0, 1]]


def of_torch(value):
    """`tests.saving.test_torch_writing.outline` of what PyTorch has read."""
    if isinstance(value, torch.Tensor) and value.is_nested:
        return [of_torch(row) for row in value.unbind()]
    if isinstance(value, torch.Tensor) and value.layout is not torch.strided:
        return str(value.layout).replace("torch", "dynograd"), value.to_dense().tolist()
    if isinstance(value, torch.Tensor):
        kind = "Parameter" if isinstance(value, torch.nn.Parameter) else "Tensor"
        raw = value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        dtype = getattr(dg, str(value.dtype).split(".")[1])
        return kind, dtype, value.requires_grad, tuple(value.shape), value.stride() if value.numel() else None, raw
    if isinstance(value, dict):
        return type(value), [(key, of_torch(entry)) for key, entry in value.items()], getattr(value, "_metadata", None)
    if type(value) in (list, tuple):
        return type(value), [of_torch(entry) for entry in value]
    names = {torch.Size: dg.Size, torch.device: lambda device: dg.device(str(device))}
    named = names.get(type(value))
    if named is None and isinstance(value, (torch.dtype, torch.layout)):
        value = getattr(dg, str(value).split(".")[1])
    value = named(value) if named else value
    return type(value), value


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("large", [1 << 30, 20])
def test_pytorch_reads_what_is_written_here(tmp_path, monkeypatch, mapped, large):
    """Everything that `format="pt"` takes, by the reader that makes nothing but data."""
    monkeypatch.setattr(torch_file_writer, "_LARGE", large)
    value = checkpoint()
    value["turned round"] = value["turned round"].clone()
    dg.save(value, tmp_path / "a.pt", format="pt")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors is in prototype stage")
        back = torch.load(tmp_path / "a.pt", weights_only=True, mmap=mapped)
    assert list(back) == list(value)
    for name in value:
        assert of_torch(back[name]) == outline(value[name]), name
    assert back["tied"][0] is back["tied"][1] and back["tied"][0].tag == "x" and back["noted"].note == {"a": 1}
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Embedding(5, 2))
    model.load_state_dict(back["model"])
    optimizer = torch.optim.AdamW(model[0].parameters())
    optimizer.load_state_dict(back["optimizer"])
    assert optimizer.param_groups[0]["lr"] == 0.1 and len(optimizer.state) == 2
    file = io.BytesIO()
    del back["memory of two dtypes"]  # which PyTorch reads, and refuses to write
    torch.save(back, file)
    file.seek(0)
    assert all(outline(entry) == outline(value[name]) for name, entry in dg.load(file).items())
    back["views"][0][5] = -1.0
    assert back["views"][1][1].item() == -1.0 and back["views"][2][1, 1].item() == -1.0
