"""Batches of samples that are on a GPU, or that come there because it is the default device."""

import numpy
import pytest

import dynograd
from dynograd.data import DataLoader, TensorDataset, collate_pad, collate_ragged
from dynograd.errors import DeviceError

X = [[1.0, 2.0, 3.0], [4.0, 5.0], [6.0]]


def rows(device):
    return [(dynograd.tensor(row, device=device), number) for number, row in enumerate(X)]


def whole(device):
    x = dynograd.arange(24.0, device=device).view(6, 4)
    return TensorDataset(x, x[:, 0].long(), x.detach().requires_grad_())


BATCHES = {
    "rows of tensors": lambda device: DataLoader(whole(device), 4),
    "rows of tensors, one by one": lambda device: DataLoader([(row[0], row[1]) for row in whole(device)], 4),
    "dtypes": lambda device: DataLoader([dynograd.ones(2, device=device), dynograd.ones(2, device=device).double()], 2),
    "padded": lambda device: DataLoader(rows(device), 2, collate_fn=collate_pad(padding_value=-1)),
    "padded, sizes first": lambda device: DataLoader(rows(device), 3, collate_fn=collate_pad(batch_first=False)),
    "ragged": lambda device: DataLoader(rows(device), 2, collate_fn=collate_ragged()),
}


def seen(batches):
    """Values, and where the first of a batch's fields is."""
    values, places = [], []
    for batch in batches:
        fields = batch if isinstance(batch, (list, tuple)) else [batch]
        places.append(fields[0].device.type)
        values.append([field.detach().cpu().tolist() for field in fields])
    return values, places


@pytest.mark.parametrize("name", BATCHES)
def test_batches_of_samples_on_a_device(name):
    values, places = seen(BATCHES[name]("cuda"))
    expected, _ = seen(BATCHES[name]("cpu"))
    assert values == expected
    assert set(places) == {"cuda"}


SAMPLES = {
    "numbers": [0.5, 1.5],
    "whole numbers": [1, 2],
    "NumPy's arrays": [numpy.ones(2), numpy.zeros(2)],
    "NumPy's numbers": [numpy.float32(1), numpy.float32(2)],
}


@pytest.mark.parametrize("name", SAMPLES)
def test_batches_come_to_the_default_device(name):
    dynograd.set_default_device("cuda")
    try:
        (batch,) = DataLoader(SAMPLES[name], 2)
        packed = dynograd.nn.utils.rnn.pack_padded_sequence(dynograd.ones(2, 3), dynograd.tensor([2, 3]), True, False)
    finally:
        dynograd.set_default_device("cpu")
    (expected,) = DataLoader(SAMPLES[name], 2)
    assert batch.device.type == "cuda" and batch.dtype is expected.dtype
    assert batch.tolist() == expected.tolist()
    assert packed.data.device.type == "cuda" and packed.batch_sizes.tolist() == [2, 2, 1]


def test_workers_make_their_batches_on_the_cpu():
    dynograd.set_default_device("cuda")
    try:
        batches = list(DataLoader([(numpy.ones(2), 0.5), (numpy.zeros(2), 1.5)], 2, num_workers=1))
    finally:
        dynograd.set_default_device("cpu")
    ((rows, numbers),) = batches
    assert (rows.device.type, numbers.device.type) == ("cpu", "cpu")
    assert rows.tolist() == [[1.0, 1.0], [0.0, 0.0]] and numbers.tolist() == [0.5, 1.5]


def test_samples_on_two_devices():
    samples = [dynograd.ones(2, device="cuda"), dynograd.ones(1)]
    for collate in (collate_pad(), collate_ragged()):
        with pytest.raises(
            DeviceError, match=r"expected the samples of a batch on one device, .* cuda:0 and cpu.*x\.to"
        ):
            collate(samples)
