"""What PyTorch has and dynograd has not: the message says so and names the way out."""

import pytest

import dynograd


@pytest.mark.parametrize("name", ["quantize_per_channel", "quantize_per_tensor", "per_tensor_affine"])
def test_quantized_names(name):
    assert not hasattr(dynograd, name)
    with pytest.raises(AttributeError, match=f"'{name}': quantized tensors are not supported.*int8.*bfloat16"):
        getattr(dynograd, name)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x: x.int_repr(), ["int_repr", "quantized", "int8"]),
        (lambda x: x.q_scale(), ["q_scale", "quantized"]),
        (lambda x: x.refine_names("N", "C"), ["refine_names", "named tensors", "sum(dim=1)"]),
        (lambda x: x.align_to("C", "N"), ["align_to", "named tensors"]),
        (lambda x: x.rename("N", "C"), ["rename", "named tensors"]),
        (lambda x: x.to_mkldnn(), ["to_mkldnn", "oneDNN", "channels_last"]),
    ],
)
def test_methods(call, words):
    with pytest.raises(NotImplementedError) as caught:
        call(dynograd.ones(2, 2))
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_what_has_a_plain_answer():
    x = dynograd.ones(2, 3, dtype=dynograd.float16)
    assert x.names == (None, None) and not x.has_names() and not x.is_quantized
    assert x.dequantize().dtype is dynograd.float32
    assert dynograd.strided is x.layout and isinstance(x.layout, dynograd.layout)


def test_other_names_stay_plain():
    with pytest.raises(AttributeError, match="^module 'dynograd' has no attribute 'nothing'$"):
        dynograd.nothing  # noqa: B018
    with pytest.raises(AttributeError, match="^module 'dynograd' has no attribute 'relo'"):
        dynograd.relo  # noqa: B018
