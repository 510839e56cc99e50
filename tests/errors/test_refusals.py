"""What PyTorch's op database showed to be taken in silence, or told in words of NumPy and Numba: each is refused in ours."""

import pytest

import dynograd
from dynograd.errors import DtypeError, IndexRangeError, InplaceError, ShapeError
from dynograd.nn import functional as F

t, eye, int32, held = dynograd.ones(2), dynograd.eye(2), dynograd.int32, dynograd.ones(5, 3)
FIRST = dynograd.tensor([0])
PUT = r"index_put: shape mismatch: value tensor of shape \[{}\] cannot be broadcast to indexing result of {} dims"
NUMBERS = [
    "sum",
    "prod",
    "any",
    "all",
    "std",
    "nonzero",
    "argwhere",
    "unique",
    "count_nonzero",
    "positive",
    "deg2rad",
    "softmax",
    "clamp",
]
REFUSED = [
    (
        lambda: dynograd.addcmul(t, 2.5, t),
        TypeError,
        r"addcmul\(\): .* got \(Tensor, float, Tensor\), but expected Tensors",
    ),
    (
        lambda: dynograd.addcdiv(2.5, t, t),
        TypeError,
        r"addcdiv\(\): .* got \(float, Tensor, Tensor\), but expected Tensors",
    ),
    (lambda: dynograd.lerp(t, 2.5, 0.5), TypeError, r"lerp\(\): .* got \(Tensor, float\), but expected Tensors"),
    (lambda: dynograd.dist(2.5, t), TypeError, r"dist\(\): .* got \(float, Tensor\), but expected Tensors"),
    (lambda: dynograd.inner(t, 2.5), TypeError, r"inner\(\): .* got \(Tensor, float\), but expected Tensors"),
    (lambda: dynograd.reshape(2.5, (1,)), TypeError, r"reshape\(\): argument 'input' must be Tensor, not float"),
    (lambda: dynograd.flip(2.5, ()), TypeError, r"flip\(\): argument 'input' must be Tensor, not float"),
    (
        lambda: dynograd.erf(dynograd.ones(2, dtype=dynograd.complex64)),
        DtypeError,
        "erf: not defined for dynograd.complex64 .* Convert",
    ),
    (
        lambda: F.adaptive_max_pool1d(dynograd.ones(1, 1, 4, dtype=dynograd.complex64), 2),
        DtypeError,
        "adaptive_max_pool1d: not implemented for input of dynograd.complex64",
    ),
    (
        lambda: dynograd.sub(t, t > 0, alpha=2),
        DtypeError,
        "sub: Subtraction, the `-` operator, with a bool tensor is not supported, got alpha=2",
    ),
    (
        lambda: dynograd.zeros(1, 2, 3).float(memory_format=dynograd.channels_last),
        ShapeError,
        "required rank 4 tensor to use channels_last format, got a tensor of 3 dims",
    ),
    (
        lambda: dynograd.index_add(dynograd.ones(1, 1, 1), 0, dynograd.tensor([0]), dynograd.ones(1)),
        IndexRangeError,
        r"expected shape \(1, 1, 1\), got \(1,\)",
    ),
    (
        lambda: F.max_pool1d(dynograd.ones(1, 2, 3), 3, 2**40, ceil_mode=True),
        ShapeError,
        r"max_pool1d: stride does not fit into 32 bits, got \[1099511627776\]",
    ),
    (
        lambda: dynograd.linalg.lu_solve(eye, dynograd.tensor([1, 2]), eye),
        DtypeError,
        "linalg.lu_solve: pivots should be a Tensor of dtype int32, got dynograd.int64",
    ),
    (
        lambda: dynograd.lu_unpack(eye, dynograd.tensor([1, 7], dtype=int32)),
        IndexRangeError,
        "lu_unpack: pivots must be between 1 and LU.size.-2. = 2 inclusive, got 1 to 7",
    ),
    (
        lambda: dynograd.lu_unpack(eye, dynograd.tensor([1], dtype=int32)),
        ShapeError,
        r"lu_unpack: expected one pivot .* shape \(2,\) .* got \(1,\)",
    ),
    (
        lambda: dynograd.ormqr(eye, dynograd.ones(1, 2), eye),
        ShapeError,
        r"ormqr: Expected tau to have one dimension less than input .* got tau of shape \(1, 2\)",
    ),
    (
        lambda: dynograd.ormqr(eye, t, dynograd.ones(3, 2, 2)),
        ShapeError,
        r"ormqr: Expected batch dimensions of other .* \(3,\) and \(\)",
    ),
    (
        lambda: dynograd.linalg.householder_product(eye, dynograd.ones(1, 2)),
        ShapeError,
        "linalg.householder_product: Expected tau to have one dimension less",
    ),
    (
        lambda: dynograd.linalg.lstsq(eye, dynograd.ones(1, 2, 2)),
        ShapeError,
        r"linalg.lstsq: input.dim\(\) must be greater .* \(2, 2\) and \(1, 2, 2\)",
    ),
    (
        lambda: dynograd.native_group_norm(dynograd.ones(2, 2, 3), None, None, 1, 2, 3, 1, 1e-5),
        ShapeError,
        r"native_group_norm: .* N=1, C=2 and HxW=3",
    ),
    (
        lambda: dynograd.native_group_norm(dynograd.ones(1, 2, 3), None, None, 1, "x", 3, 1, 1e-5),
        TypeError,
        "native_group_norm: N, C, HxW and group must be ints, got 1, 'x'",
    ),
    (
        lambda: dynograd.segment_reduce(t, "sum", offsets=dynograd.tensor([0, 2, 0]), unsafe=True),
        IndexRangeError,
        r"segment_reduce: expected a length, between two offsets, to be 0 .*got -2 .*offsets must not fall",
    ),
    (
        lambda: dynograd.segment_reduce(t, "sum", lengths=dynograd.tensor([3, -1]), unsafe=True),
        IndexRangeError,
        r"segment_reduce: expected lengths to be 0 .*got -1",
    ),
    (
        lambda: F.linear(eye, eye, dynograd.ones(3)),
        ShapeError,
        r"linear: bias of shape \(3,\) does not broadcast to \(2, 2\)",
    ),
    (
        lambda: F.multi_head_attention_forward(
            t[None], t[None], t[None], 2, 1, dynograd.ones(7, 2), None, None, None, False, 0.0, eye, None
        ),
        ShapeError,
        r"expected in_proj_weight of shape \(6, 2\) for an embedding dimension of 2, got \(7, 2\)",
    ),
    (
        lambda: F.binary_cross_entropy(t, t, weight=dynograd.ones(1, 1, 2)),
        ShapeError,
        r"binary_cross_entropy: weight of shape \(1, 1, 2\) does not broadcast to \(2,\)",
    ),
    (
        lambda: F.binary_cross_entropy_with_logits(t, t, pos_weight=2.0),
        TypeError,
        r"argument 'pos_weight' must be Tensor, not float \(2.0\)",
    ),
    (lambda: F.soft_margin_loss(t, eye), ShapeError, r"target of shape \(2, 2\) does not broadcast to \(2,\)"),
    (
        lambda: F.kl_div(t, t.long(), reduction="sum"),
        DtypeError,
        "kl_div: .* got target of dynograd.int64. Use target.float",
    ),
    (
        lambda: F.nll_loss(eye, eye[0].long(), ignore_index="x"),
        TypeError,
        r"nll_loss\(\): argument 'ignore_index' must be an int, not str",
    ),
    (
        lambda: F.embedding_bag(eye.long(), eye, mode="sum", per_sample_weights=eye.double()),
        DtypeError,
        "embedding_bag: expected per_sample_weights of the weight's dtype dynograd.float32, got dynograd.float64",
    ),
    (lambda: F.pad(t, (-3, 5)), ShapeError, "negative output size"),
    (
        lambda: F.scaled_dot_product_attention(eye, eye, eye, eye[None]),
        ShapeError,
        r"attn_mask of shape \(1, 2, 2\) has more dims than query \(2, 2\)",
    ),
    (lambda: dynograd.renorm(eye, -1, 0, 1), ValueError, "renorm: expected p above 0 .* got p=-1"),
    (lambda: dynograd.trapezoid(t, eye), ShapeError, r"x has more dims than y: shape \(2, 2\) for y of shape \(2,\)"),
    (
        lambda: t.repeat_interleave(dynograd.tensor([1, 2]), output_size=4),
        ShapeError,
        "repeat_interleave: .* output_size=4, but the repeats sum to 3",
    ),
    (
        lambda: dynograd.randint(0, 300, (2,), dtype=dynograd.uint8),
        RuntimeError,
        r"randint: numbers from 0 to 299 are out of bounds for dynograd.uint8 \(0 to 255\). Use a wider dtype",
    ),
    (lambda: dynograd.full((2,), "x"), TypeError, r"full\(\): argument 'fill_value' must be a number, not str"),
    (lambda: dynograd.zeros(2).new_empty((2, "x")), TypeError, "sizes must be ints"),
    (lambda: dynograd.normal("x", t), TypeError, r"normal\(\): argument 'mean' must be a number, not str"),
    (
        lambda: dynograd.tril_indices(2, 2, "x"),
        TypeError,
        r"tril_indices\(\): argument 'offset' must be an int, not str",
    ),
    (lambda: dynograd.roll(t, "x"), TypeError, r"roll\(\): argument 'shifts' must be an int, not str"),
    (
        lambda: dynograd.histogram(t, 2.5),
        TypeError,
        r"histogram\(\): argument 'bins' must be an int, not float \(2.5\)",
    ),
    (
        lambda: dynograd.ones(2).resize_as_(3),
        TypeError,
        r"resize_as_\(\): argument 'the_template' must be Tensor, not int",
    ),
    (lambda: t.__delitem__(0), TypeError, r"does not support deleting items.*x\[mask\]"),
    (lambda: t.flip(), TypeError, r"flip: missing 1 required argument: 'dims'"),
    (lambda: t.sum(True), TypeError, r"sum: dim must be an int, got True. Write keepdim=True"),
    (lambda: dynograd.device(-1), RuntimeError, r"device: expected an index of 0 or more, got -1 for 'cuda'"),
    (lambda: dynograd.LongTensor((6, 0), 1), TypeError, r"sizes must be ints, got \(\(6, 0\), 1\)"),
    (
        lambda: dynograd.nonzero(t, out=dynograd.empty(0)),
        RuntimeError,
        "nonzero: Expected out tensor to have dtype dynograd.int64",
    ),
    (
        lambda: dynograd.empty(2, 1, 2, 2).dim_order(ambiguity_check=True),
        RuntimeError,
        r"dim_order: the tensor of shape \(2, 1, 2, 2\) with strides \(4, 4, 2, 1\) does not have a unique order",
    ),
    (
        lambda: dynograd.empty(2, 2).dim_order(ambiguity_check="x"),
        TypeError,
        "dim_order: ambiguity_check must be a bool or a list of memory formats, got 'x'",
    ),
    (
        lambda: dynograd.zeros(2).map2_(dynograd.ones(2, requires_grad=True), dynograd.ones(2), max),
        RuntimeError,
        r"map2_: Can't call map2_\(\) on Variable that requires grad",
    ),
    (
        lambda: dynograd.frombuffer([1, 2], dtype=dynograd.int8),
        ValueError,
        "frombuffer: object does not implement Python buffer protocol, got list",
    ),
    (lambda: dynograd.set_warn_always("yes"), TypeError, "set_warn_always: expected True or False, got 'yes'"),
    (lambda: dynograd.resolve_conj("x"), TypeError, r"resolve_conj\(\): argument 'input' must be Tensor, not str"),
    (
        lambda: dynograd.index_put(eye, (eye[0] > 2,), dynograd.ones(3), accumulate=True),
        ShapeError,
        r"index_put: shape mismatch: value tensor of shape \[3\] cannot be broadcast to indexing result of shape \[0, 2\]",
    ),
    (
        lambda: dynograd.cross(held, held, out=held),
        InplaceError,
        "cross: unsupported operation: .* single memory location",
    ),
    (
        lambda: dynograd.linalg.pinv(eye, rtol="x"),
        TypeError,
        r"tolerance \(atol, rtol\) must be a number or a Tensor, not str",
    ),
    (lambda: dynograd.signal.windows.gaussian(3, std="x"), TypeError, r"gaussian\(M=3, std='x'\)"),
    (lambda: dynograd.masked.norm(t, "x"), TypeError, r"argument 'ord' must be a number, not str \('x'\)"),
    (
        lambda: dynograd.masked.logaddexp(t, 2.5),
        TypeError,
        r"logaddexp: other must be a Tensor, not float. Write tensor\(2.5\)",
    ),
    (
        lambda: t.clamp(t, 2.5),
        TypeError,
        "clamp: expected min and max to be two numbers or two Tensors, got Tensor and float",
    ),
    (
        lambda: t.clamp(1, t),
        TypeError,
        "clamp: expected min and max to be two numbers or two Tensors, got int and Tensor",
    ),
    (
        lambda: F.pad(dynograd.ones(0, 3, 3), (0, 1, 0, 1), "replicate"),
        ShapeError,
        r"mode 'replicate' over 2 dims expected an input whose last 3 dims are not empty, got shape \(0, 3, 3\)",
    ),
    (lambda: dynograd.Tensor.__radd__(2, t), TypeError, "Tensor.__radd__: self must be a Tensor, not int, got 2"),
    (lambda: dynograd.Tensor.__rxor__(2, 3), TypeError, "Tensor.__rxor__: self must be a Tensor, not int, got 2"),
    (lambda: held.index_put((FIRST,), dynograd.ones(1, 1, 3)), ShapeError, PUT.format("1, 1, 3", 2)),
    (lambda: held.index_put_((FIRST,), dynograd.ones(1, 1, 3)), ShapeError, PUT.format("1, 1, 3", 2)),
    (lambda: held.index_put((FIRST, FIRST), dynograd.ones(1, 1)), ShapeError, PUT.format("1, 1", 1)),
    (lambda: held.index_put((held > 0,), dynograd.ones(1, 15)), ShapeError, PUT.format("1, 15", 1)),
    (lambda: held.index_put((None, FIRST), dynograd.ones(1, 5, 1)), ShapeError, PUT.format("1, 5, 1", 2)),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[words[:60] for _, _, words in REFUSED])
def test_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_no_tensor(name):
    with pytest.raises(TypeError, match=rf"{name}\(\): argument 'input' must be Tensor, not float"):
        getattr(dynograd, name)(2.5, *((0,) if name == "softmax" else ()))


def test_numbers_beside_tensors_are_still_taken():
    assert (
        dynograd.add(2, 3) == 5
        and dynograd.pow(2.0, t).tolist() == [2, 2]
        and dynograd.where(t > 0, 1.0, t).tolist() == [1, 1]
    )
    assert (
        dynograd.lerp(t, t, 0.5).tolist() == [1, 1]
        and dynograd.rsub(t, 1).tolist() == [0, 0]
        and dynograd.clamp(t, 2).tolist() == [2, 2]
    )
