"""`axis` and `keepdims` are taken where PyTorch takes them, but for what `argument_names_known.txt` names; that list only gets shorter."""

import warnings

import numpy
import pytest
import torch

import dynograd
from tests.parity import argument_names


@pytest.mark.parametrize("name", argument_names.ENTRIES)
def test_entry(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = argument_names.refused(name)
    known = argument_names.KNOWN.get(name, set())
    assert not result - known
    assert not known - result, "taken now: take them out of argument_names_known.txt"


def test_known_entries_exist():
    assert set(argument_names.KNOWN) <= set(argument_names.ENTRIES)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib, x: lib.frobenius_norm(x, axis=1),
        lambda lib, x: lib.frobenius_norm(x, dim=1, keepdims=True),
        lambda lib, x: lib.nuclear_norm(x, axis=(0, 1)),
        lambda lib, x: lib.norm_except_dim(x, 2, axis=0),
        lambda lib, x: lib.unsafe_split_with_sizes(x, [1, 3], axis=1)[1],
        lambda lib, x: x.unsafe_split_with_sizes([1, 3], axis=1)[1],
    ],
)
def test_what_the_database_has_not(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = call(torch, torch.arange(12.0).reshape(3, 4))
    numpy.testing.assert_allclose(call(dynograd, dynograd.arange(12.0).reshape(3, 4)).tolist(), expected.tolist(), 1e-5)


def _row(text: str) -> list[str]:
    return [element.strip() for element in text.split(";") if element.strip()]


CREATED = _row("""
zeros(size=(2, 3)); ones(size=[2, 3]); empty(size=(2,)); rand(size=(2,)); randn(size=(2,)); full(size=(2,), fill_value=3.0)
arange(end=3); arange(start=1, end=3); arange(start=1, end=5, step=2); linspace(start=0, end=1, steps=3)
logspace(start=0, end=1, steps=3, base=2.0); eye(n=3, m=2); randint(high=3, size=(2,)); randint(low=1, high=3, size=(2,))
randint(1, high=3, size=(2,)); randperm(n=4); zeros_like(input=x); full_like(input=x, fill_value=3); rand_like(input=x)
randint_like(input=x, high=3); randint_like(x, high=3); randint_like(input=x, low=1, high=3); normal(mean=x, std=x)
normal(mean=0.0, std=1.0, size=(2,)); normal(0.0, 1.0, size=(2,), layout=lib.strided, pin_memory=False, requires_grad=True)
bernoulli(input=x, p=0.5); multinomial(input=x, num_samples=2, replacement=True); poisson(input=x); binomial(count=x, prob=x)
complex(real=x, imag=x); polar(abs=x, angle=x); tril_indices(row=3, col=3, offset=1); triu_indices(row=3, col=3, layout=lib.strided)
hann_window(window_length=4, periodic=False, dtype=lib.float64, layout=lib.strided, device="cpu", requires_grad=True)
hamming_window(window_length=4, periodic=True, alpha=0.5, beta=0.5); kaiser_window(window_length=4, periodic=True, beta=3.0)
sparse_coo_tensor(indices=[[0]], values=[1.0], size=(2,), is_coalesced=True, check_invariants=True)
tensor(data=[1.0]); as_tensor(data=[1.0], dtype=lib.float64); asarray(obj=[1.0]); scalar_tensor(s=2); vander(x=x, N=2, increasing=True)
empty_strided(size=(2,), stride=(1,)); empty_permuted(size=(2, 2), physical_layout=(0, 1)); frombuffer(buffer=bytearray(8), dtype=lib.uint8)
zero_(input=x.clone()); fill_(input=x.clone(), value=3); detach_(input=x.clone()); resize_as_(input=x.clone(), the_template=x)
as_strided_(input=x.clone(), size=(1,), stride=(1,))
""".replace("\n", ";"))  # fmt: skip
METHODS = _row("""
new_zeros(size=(2, 3)); new_ones(size=(2, 3)); new_empty(size=(2,)); new_full(size=(2,), fill_value=3.0); new_tensor(data=[1.0])
new_empty_strided(size=(2,), stride=(1,)); new_zeros((2,), dtype=lib.int32, layout=lib.strided, device="cpu", pin_memory=False)
random_(to=5); random_(1, to=5); uniform_(to=5.0); normal_(mean=1, std=2, generator=None); exponential_(lambd=2.0)
cauchy_(median=0, sigma=1); geometric_(p=0.5); log_normal_(mean=0, std=1); bernoulli_(p=0.5); bernoulli(p=0.5)
view(size=(1, 3)); reshape(shape=(3, 1)); expand(size=(2, 3)); repeat(repeats=(2,)); tile(dims=(2,)); resize_(size=(2,))
sum_to_size(size=(1,)); eq_(other=x); lt_(other=2); ge_(other=x); add_(other=x, alpha=2); clone(memory_format=lib.preserve_format)
""".replace("\n", ";"))  # fmt: skip


@pytest.mark.parametrize("call", [*CREATED, *[f"x.{call}" for call in METHODS]])
def test_names_of_what_makes_tensors(call):
    def made(lib):
        x = lib.ones(3)
        return eval(call if call.startswith("x.") else f"lib.{call}", {"lib": lib, "x": x, "bytearray": bytearray})

    expected, result = made(torch), made(dynograd)
    assert tuple(result.shape) == tuple(expected.shape)
    assert str(result.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
    assert result.requires_grad == expected.requires_grad
