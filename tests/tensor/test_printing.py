"""Expected texts are PyTorch 2.13's own, with the library's name exchanged."""

import ml_dtypes
import numpy
import pytest

from dynograd.base import dtypes
from dynograd.tensor import printing

inf, nan = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def default_options():
    yield
    printing.set_printoptions(profile="default")


def text_of(values, dtype=None, **suffixes):
    array = numpy.asarray(values, dtype=dtype)
    if dtype is None and array.dtype.kind in "fc":
        array = array.astype("float32" if array.dtype.kind == "f" else "complex64")
    return printing.format_tensor(
        array, dtype_suffix=printing.dtype_suffix(dtypes.of_array(array), array.size), **suffixes
    )


@pytest.mark.parametrize(
    "values, dtype, expected",
    [
        (3.14159, None, "tensor(3.1416)"),
        (2.0, None, "tensor(2.)"),
        (-0.0, None, "tensor(-0.)"),
        (7, None, "tensor(7)"),
        (True, None, "tensor(True)"),
        (1e-5, None, "tensor(1.0000e-05)"),
        (nan, None, "tensor(nan)"),
        (1 - 1j, None, "tensor(1.-1.j)"),
        ([0.0, 1.0, 2.0], None, "tensor([0., 1., 2.])"),
        ([0.5, 2.0, -10.25], None, "tensor([  0.5000,   2.0000, -10.2500])"),
        ([1e-5, 1.0], None, "tensor([1.0000e-05, 1.0000e+00])"),
        ([1.0, 1001.0], None, "tensor([1.0000e+00, 1.0010e+03])"),
        ([1e9, 2.0], None, "tensor([1.0000e+09, 2.0000e+00])"),
        ([123456.5, 200000.0], None, "tensor([123456.5000, 200000.0000])"),
        ([0.0, nan, inf], None, "tensor([0., nan, inf])"),
        ([1.5, nan, -inf], None, "tensor([1.5000,    nan,   -inf])"),
        ([[1, -20], [300, 4]], None, "tensor([[  1, -20],\n        [300,   4]])"),
        ([[True, False]], None, "tensor([[ True, False]])"),
        ([1, 255], "uint8", "tensor([  1, 255], dtype=dynograd.uint8)"),
        ([0.1, 65504.0], "float16", "tensor([9.9976e-02, 6.5504e+04], dtype=dynograd.float16)"),
        ([0.1, 3.0], ml_dtypes.bfloat16, "tensor([0.1001, 3.0000], dtype=dynograd.bfloat16)"),
        ([1.0, 2.0], "float64", "tensor([1., 2.], dtype=dynograd.float64)"),
        ([1 + 2j, -0.5 - 1j], None, "tensor([ 1.0000+2.j, -0.5000-1.j])"),
        ([1.0, complex(0, nan)], "complex128", "tensor([1.+0.j, 0.+nanj], dtype=dynograd.complex128)"),
        ([], None, "tensor([])"),
        (numpy.empty((0, 3)), None, "tensor([], size=(0, 3))"),
        ([], "int64", "tensor([], dtype=dynograd.int64)"),
        (numpy.empty((2, 0)), "float64", "tensor([], size=(2, 0), dtype=dynograd.float64)"),
        (numpy.ones((1, 1, 1, 2)), None, "tensor([[[[1., 1.]]]])"),
        (numpy.arange(1001), None, "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    ],
)
def test_text(values, dtype, expected):
    assert text_of(values, dtype) == expected


def test_long_rows_break_at_80_characters():
    assert text_of(numpy.arange(30)) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"
    )


def test_rows_of_zeros_break_later_as_in_torch():
    first, second = text_of(numpy.zeros(40)).split("\n")
    assert first == "tensor([" + "0., " * 23 + "0.,"
    assert second == "        " + "0., " * 15 + "0.])"


def test_matrices_in_a_tensor_are_set_apart_by_an_empty_line():
    assert text_of(numpy.arange(8.0).reshape(2, 2, 2)) == (
        "tensor([[[0., 1.],\n         [2., 3.]],\n\n        [[4., 5.],\n         [6., 7.]]])"
    )


def test_more_than_1000_elements_show_their_edges():
    assert text_of(numpy.arange(4000).reshape(2, 50, 40)) == (
        "tensor([[[   0,    1,    2,  ...,   37,   38,   39],\n"
        "         [  40,   41,   42,  ...,   77,   78,   79],\n"
        "         [  80,   81,   82,  ...,  117,  118,  119],\n"
        "         ...,\n"
        "         [1880, 1881, 1882,  ..., 1917, 1918, 1919],\n"
        "         [1920, 1921, 1922,  ..., 1957, 1958, 1959],\n"
        "         [1960, 1961, 1962,  ..., 1997, 1998, 1999]],\n\n"
        "        [[2000, 2001, 2002,  ..., 2037, 2038, 2039],\n"
        "         [2040, 2041, 2042,  ..., 2077, 2078, 2079],\n"
        "         [2080, 2081, 2082,  ..., 2117, 2118, 2119],\n"
        "         ...,\n"
        "         [3880, 3881, 3882,  ..., 3917, 3918, 3919],\n"
        "         [3920, 3921, 3922,  ..., 3957, 3958, 3959],\n"
        "         [3960, 3961, 3962,  ..., 3997, 3998, 3999]]])"
    )


def test_only_shown_elements_choose_the_notation():
    values = numpy.ones(2000)
    values[1000] = 1e-9
    assert text_of(values) == "tensor([1., 1., 1.,  ..., 1., 1., 1.])"


def test_suffixes():
    assert text_of([1.0], requires_grad=True) == "tensor([1.], requires_grad=True)"
    assert text_of([1.0], requires_grad=True, grad_fn_name="<MulBackward0>") == "tensor([1.], grad_fn=<MulBackward0>)"
    assert text_of([1.0], device_suffix="'cuda:0'") == "tensor([1.], device='cuda:0')"
    assert text_of([1.0], tangent="tensor([2.])") == "tensor([1.], tangent=tensor([2.]))"


def test_suffix_that_does_not_fit_starts_a_line():
    assert text_of(numpy.arange(15.0) / 7, "float64", requires_grad=True) == (
        "tensor([0.0000, 0.1429, 0.2857, 0.4286, 0.5714, 0.7143, 0.8571, 1.0000, 1.1429,\n"
        "        1.2857, 1.4286, 1.5714, 1.7143, 1.8571, 2.0000],\n"
        "       dtype=dynograd.float64, requires_grad=True)"
    )


def test_prefix_indents():
    text = text_of(numpy.arange(4.0).reshape(2, 2), prefix="Weighted(")
    assert text == "Weighted([[0., 1.],\n          [2., 3.]])"


def test_contents_stand_for_numbers():
    text = printing.format_tensor(None, contents="...", size=(2, 3), device_suffix="'meta'")
    assert text == "tensor(..., device='meta', size=(2, 3))"


def test_default_dtype_is_not_printed():
    dtypes.set_default_dtype(dtypes.float64)
    try:
        assert text_of([1.0], "float64") == "tensor([1.])"
        assert text_of([1.0], "float32") == "tensor([1.], dtype=dynograd.float32)"
        assert text_of([1.0], "complex128") == "tensor([1.+0.j])"
    finally:
        dtypes.set_default_dtype(dtypes.float32)


@pytest.mark.parametrize(
    "options, values, expected",
    [
        ({"precision": 2}, [1.12345], "tensor([1.12])"),
        ({"threshold": 5}, range(10), "tensor([0, 1, 2,  ..., 7, 8, 9])"),
        ({"threshold": 5, "edgeitems": 1}, range(10), "tensor([0,  ..., 9])"),
        ({"threshold": 5, "edgeitems": 0}, range(10), "tensor([...], size=(10,))"),
        ({"linewidth": 20}, range(8), "tensor([0, 1, 2, 3,\n        4, 5, 6, 7])"),
        ({"sci_mode": True}, [1.0, 2.5], "tensor([1.0000e+00, 2.5000e+00])"),
        ({"sci_mode": False}, [1e-5, 1.0], "tensor([0.0000, 1.0000])"),
        ({"profile": "short"}, [0.123456], "tensor([0.12])"),
    ],
)
def test_options(options, values, expected):
    with printing.printoptions(**options):
        assert text_of(list(values)) == expected
    assert printing.get_printoptions() == {
        "precision": 4,
        "threshold": 1000,
        "edgeitems": 3,
        "linewidth": 80,
        "sci_mode": None,
    }


def test_full_profile_shows_everything():
    printing.set_printoptions(profile="full")
    assert "..." not in text_of(range(2000))


def test_sci_mode_ends_with_the_next_call():
    printing.set_printoptions(sci_mode=True)
    printing.set_printoptions(precision=3)
    assert printing.get_printoptions()["sci_mode"] is None


def test_unknown_profile_names_the_known_ones():
    with pytest.raises(ValueError, match=r"'tiny' is unknown.*default, short, full"):
        printing.set_printoptions(profile="tiny")
