"""Names of PyTorch that programs import or ask: what they answer, and how absent ones refuse."""

import importlib
import inspect
import math
import pickle

import numpy
import pytest

import dynograd as torch
from dynograd.kernels.build import determinism
from dynograd.nn import functional as F


def test_result_type_and_questions():
    x = torch.ones(2, 3)
    assert torch.result_type(torch.tensor([1, 2]), 1.5) is torch.float32
    assert torch.result_type(torch.tensor([1], dtype=torch.int8), torch.tensor(5)) is torch.int8
    assert torch.is_same_size(x, torch.zeros(2, 3)) and not x.is_same_size(x[0])
    assert torch.is_nonzero(torch.tensor([1])) and not torch.tensor(0.0).is_nonzero()
    with pytest.raises(
        RuntimeError, match=r"is_nonzero: expected a tensor of one element, got shape \(2, 3\).*any\(\)"
    ):
        x.is_nonzero()
    assert torch.is_signed(x) and not torch.is_signed(x.byte())
    assert x.is_set_to(x.view(2, 3)) and not x.is_set_to(x.clone()) and not x.is_set_to(x[:1])
    assert torch.typename(x) == "dynograd.FloatTensor" and torch.typename(3) == "int"
    assert x.t().dim_order() == (1, 0) and torch.zeros(2, 3, 4, 5).to(
        memory_format=torch.channels_last
    ).dim_order() == (0, 2, 3, 1)
    assert not (x.is_xla or x.is_mkldnn or x.is_xpu or torch.is_distributed(x) or torch.is_inference(x))
    assert torch.get_device(x) == -1
    assert reversed(torch.tensor([[1, 2], [3, 4]])).tolist() == [[3, 4], [1, 2]]
    assert torch.zeros(2).map2_(torch.tensor([1.0, 2.0]), torch.tensor([3.0]), lambda a, b, c: a + b * c).tolist() == [
        3.0,
        6.0,
    ]


def test_as_subclass_shares_memory_and_history():
    class Named(torch.Tensor):
        pass

    x = torch.ones(2)
    created = x.as_subclass(Named)
    created[0] = 5
    assert type(created) is Named and x.tolist() == [5.0, 1.0]
    w = torch.ones(2, requires_grad=True)
    (w.as_subclass(Named) * 3).sum().backward()
    assert w.grad.tolist() == [3.0, 3.0]
    with pytest.raises(TypeError, match="as_subclass: expected a subclass of Tensor, got <class 'int'>"):
        x.as_subclass(int)


def test_types():
    from dynograd.types import Device, Number, _size

    assert isinstance(3, Number) and isinstance(1.5, Number) and not isinstance("x", Number)
    assert Device is not None and _size is not None


def test_futures():
    future = torch.futures.Future()
    doubled = future.then(lambda done: 2 * done.value())
    failed = future.then(lambda done: 1 / 0)
    with pytest.raises(RuntimeError, match=r"Future.value: .*wait\(\)"):
        future.value()
    both = torch.futures.collect_all([future, doubled])
    assert not both.done()
    future.set_result(3)
    assert doubled.wait() == 6 and [element.wait() for element in both.wait()] == [3, 6]
    with pytest.raises(ZeroDivisionError):
        failed.wait()
    with pytest.raises(RuntimeError, match="set before"):
        future.set_result(4)
    with pytest.raises(TypeError, match="set_exception: expected an exception, got str"):
        torch.futures.Future().set_exception("no")
    assert torch.futures.wait_all([]) == [] and torch.futures.wait_all([doubled]) == [6]
    assert isinstance(torch.jit.fork(max, 1, 2), torch.jit.Future) and torch.jit.fork(max, 1, 2).wait() == 2


@pytest.mark.filterwarnings("ignore:jit.script_method")
def test_script_modules():
    class Old(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 1)

        @torch.jit.script_method
        def forward(self, x):
            return self.layer(x)

    assert Old()(torch.ones(3, 2)).shape == (3, 1) and len(list(Old().parameters())) == 2
    assert not isinstance(torch.nn.Linear(1, 1), torch.jit.ScriptModule)
    assert issubclass(torch.jit.RecursiveScriptModule, torch.jit.ScriptModule)
    assert not isinstance(max, torch.jit.ScriptFunction)
    with pytest.raises(NotImplementedError, match="ScriptFunction: nothing is translated"):
        torch.jit.ScriptFunction()


def test_functional_is_the_top_level():
    assert torch.functional.einsum("i,i->", torch.ones(3), torch.ones(3)).item() == 3
    assert torch.functional.broadcast_shapes((2, 1), (3,)) == (2, 3)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_gradients_of_convolutions(rank):
    from dynograd.nn import grad

    torch.manual_seed(0)
    x, w = torch.randn(2, 2, *[6] * rank, requires_grad=True), torch.randn(4, 1, *[3] * rank, requires_grad=True)
    y = getattr(F, f"conv{rank}d")(x, w, stride=2, padding=1, groups=2)
    g = torch.randn(y.shape)
    y.backward(g)
    of_input, of_weight = (getattr(grad, f"conv{rank}d_{which}") for which in ("input", "weight"))
    options = {"stride": 2, "padding": 1, "groups": 2}
    numpy.testing.assert_allclose(of_input(x.shape, w.detach(), g, **options).numpy(), x.grad.numpy(), atol=1e-5)
    numpy.testing.assert_allclose(of_weight(x.detach(), w.shape, g, **options).numpy(), w.grad.numpy(), atol=1e-5)
    assert of_weight(x, w.shape, g, **options).requires_grad


def test_storages_of_one_dtype():
    created = torch.FloatStorage([1.0, 2.0])
    assert isinstance(created, torch.FloatStorage) and not isinstance(created, torch.LongStorage)
    assert created.tolist() == [1.0, 2.0] and created.dtype is torch.float32
    assert isinstance(torch.ones(2).long().storage(), torch.LongStorage)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool", "complex64"])
def test_make_tensor(dtype):
    created = torch.testing.make_tensor(
        3, 4, dtype=getattr(torch, dtype), device="cpu", noncontiguous=True, exclude_zero=dtype != "bool"
    )
    assert created.shape == (3, 4) and str(created.dtype) == f"dynograd.{dtype}" and not created.is_contiguous()
    assert dtype == "bool" or (created != 0).all()
    with pytest.raises(ValueError, match="low must be smaller than high, got low=2 and high=1"):
        torch.testing.make_tensor(2, dtype=torch.float32, device="cpu", low=2, high=1)


def test_make_tensor_with_bounds():
    created = torch.testing.make_tensor((100,), dtype=torch.int64, device="cpu", low=2, high=4)
    assert set(created.tolist()) == {2, 3}
    assert torch.testing.make_tensor((2,), dtype=torch.float32, device="cpu", requires_grad=True).requires_grad


# --- flex_attention --------------------------------------------------------------------------------------------------------


def reference_attention(q, k, v, change, visible):
    batch, heads, queries, size = q.shape
    out = numpy.zeros((batch, heads, queries, v.shape[-1]))
    for b, h, i in numpy.ndindex(batch, heads, queries):
        scores = numpy.array([change(q[b, h, i] @ k[b, h, j] / math.sqrt(size), b, h, i, j) for j in range(k.shape[2])])
        seen = numpy.array([bool(visible(b, h, i, j)) for j in range(k.shape[2])])
        if seen.any():
            weights = numpy.where(seen, numpy.exp(scores - scores[seen].max()), 0)
            out[b, h, i] = weights @ v[b, h] / weights.sum()
    return out


def test_flex_attention_against_loops():
    from dynograd.nn.attention.flex_attention import and_masks, create_block_mask, flex_attention, or_masks

    random = numpy.random.default_rng(0)
    q, k, v = random.normal(size=(2, 2, 5, 4)), random.normal(size=(2, 2, 7, 4)), random.normal(size=(2, 2, 7, 3))
    slopes = numpy.array([0.5, -0.25])
    learned = torch.tensor(slopes, requires_grad=True)

    def alibi(score, b, h, i, j):
        return score + learned[h] * (i - j)

    window = or_masks(
        lambda b, h, i, j: i - j > 3, and_masks(lambda b, h, i, j: j >= i, lambda b, h, i, j: j < i + 2 + h)
    )
    mask = create_block_mask(window, 2, 2, 5, 7, BLOCK_SIZE=2)
    got, lse = flex_attention(*map(torch.tensor, (q, k, v)), alibi, mask, return_lse=True)
    expected = reference_attention(
        q, k, v, lambda s, b, h, i, j: s + slopes[h] * (i - j), lambda b, h, i, j: i - j > 3 or (j >= i and j < i + 2 + h)
    )  # fmt: skip
    numpy.testing.assert_allclose(got.detach().numpy(), expected, atol=1e-10)
    got.square().sum().backward()
    assert learned.grad.abs().min() > 0 and lse.shape == (2, 2, 5)
    dense = mask.to_dense()
    assert dense.shape == (2, 2, 3, 4) and 0 < mask.sparsity() < 100 and "BlockMask(shape=(2, 2, 5, 7)" in repr(mask)


def test_flex_attention_of_nothing_seen_and_of_shared_heads():
    from dynograd.nn.attention.flex_attention import create_block_mask, flex_attention

    x = torch.randn(1, 4, 3, 2)
    none = create_block_mask(lambda b, h, i, j: (i < 0) | (j < 0), None, None, 3, 3)
    assert flex_attention(x, x, x, block_mask=none).tolist() == torch.zeros(1, 4, 3, 2).tolist()
    shared = x[:, :2]
    with pytest.raises(RuntimeError, match="flex_attention: query has 4 heads and key 2. Pass enable_gqa=True"):
        flex_attention(x, shared, shared)
    expected = F.scaled_dot_product_attention(x, shared, shared, enable_gqa=True)
    numpy.testing.assert_allclose(
        flex_attention(x, shared, shared, enable_gqa=True).numpy(), expected.numpy(), atol=1e-6
    )
    with pytest.raises(RuntimeError, match=r"block_mask is for \(3, 3\).*\(3, 2\).*KV_LEN=2"):
        flex_attention(x, x[:, :, :2], x[:, :, :2], block_mask=none)


def test_causal_masks_of_two_lengths():
    from dynograd.nn.attention.bias import causal_lower_right, causal_upper_left

    assert causal_upper_left(2, 3).tolist() == [[True, False, False], [True, True, False]]
    assert causal_lower_right(2, 3).tolist() == [[True, True, False], [True, True, True]]
    with pytest.raises(ValueError, match=r"causal_lower_right: expected two sizes, of queries and keys, got \(2,\)"):
        causal_lower_right(2)


# --- older names, control flow, switches ---------------------------------------------------------------------------------------


def test_older_norms():
    x = torch.tensor([[3.0, 4.0], [0.0, 2.0]])
    assert torch.frobenius_norm(x).item() == pytest.approx(math.sqrt(29))
    assert torch.frobenius_norm(x, 1, True).tolist() == [[5.0], [2.0]]
    assert torch.nuclear_norm(x).item() == pytest.approx(numpy.linalg.norm(x.numpy(), "nuc"), rel=1e-6)
    out = torch.empty(0)
    assert torch.frobenius_norm(x, out=out) is out and out.item() == pytest.approx(math.sqrt(29))
    assert torch.nuclear_norm(x, out=out).item() == torch.nuclear_norm(x).item()
    assert torch.norm_except_dim(x, 2, 0).tolist() == [[5.0], [2.0]]
    assert torch.norm_except_dim(x, 2, -1).item() == pytest.approx(math.sqrt(29))


@pytest.mark.parametrize(
    ("shapes", "pattern"),
    [
        (((7, 3), (3, 3, 4)), "rows"), (((3, 4, 3), (3, 7)), "columns"), (((4, 7), (7, 2)), "shared"), (((3, 2, 4), (3, 4, 5)), "batched"),
    ],
)  # fmt: skip
def test_grouped_products(shapes, pattern):
    draw = numpy.random.default_rng(0)
    a, b = [draw.standard_normal(shape) for shape in shapes]
    spans = [slice(0, 2), slice(2, 2), slice(2, 6)]
    expected = {"rows": numpy.zeros((7, 4)), "columns": numpy.zeros((4, 7)), "shared": numpy.zeros((3, 4, 2))}.get(
        pattern
    )
    for number, span in enumerate(spans):
        if pattern == "rows":
            expected[span] = a[span] @ b[number]
        elif pattern == "columns":
            expected[:, span] = a[number] @ b[:, span]
        elif pattern == "shared":
            expected[number] = a[:, span] @ b[span]
    offs = None if pattern == "batched" else torch.tensor([2, 2, 6], dtype=torch.int32)
    result = torch.nn.functional.grouped_mm(torch.tensor(a), torch.tensor(b), offs=offs)
    numpy.testing.assert_allclose(result.numpy(), a @ b if expected is None else expected, rtol=1e-12)
    assert torch._grouped_mm(torch.tensor(a), torch.tensor(b), offs, out_dtype=torch.float32).dtype == torch.float32


def test_grouped_products_ask_where_groups_end():
    with pytest.raises(ValueError, match="grouped_mm: offs says where groups end"):
        torch.nn.functional.grouped_mm(torch.ones(3, 2), torch.ones(2, 2, 1))


def test_gamma_and_dirichlet_numbers_of_a_generator():
    concentration = torch.full((500, 3), 2.0, requires_grad=True)
    for function in (torch._standard_gamma, torch._sample_dirichlet):
        first, again = [function(concentration, torch.Generator().manual_seed(3)) for _ in range(2)]
        assert first.tolist() == again.tolist() and first.requires_grad
    assert abs(float(torch._standard_gamma(concentration).mean()) - 2) < 0.3
    numpy.testing.assert_allclose(first.detach().sum(-1).numpy(), numpy.ones(500), rtol=1e-5)


def test_conv_tbc():
    x, w, b = torch.randn(6, 2, 3), torch.randn(3, 3, 4), torch.randn(4)
    expected = F.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=1).permute(2, 0, 1)
    numpy.testing.assert_array_equal(torch.conv_tbc(x, w, b, 1).numpy(), expected.numpy())


def test_control_flow_as_functions():
    x = torch.tensor(3.0, requires_grad=True)
    torch.cond(x > 2, lambda one: one * one, lambda one: -one, (x,)).backward()
    assert x.grad.item() == 6.0
    i, total = torch.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, s + i), (torch.tensor(0), torch.tensor(0)))
    assert (i.item(), total.item()) == (4, 6)


def test_switches():
    torch.set_deterministic_debug_mode("warn")
    assert torch.get_deterministic_debug_mode() == 1 and torch.are_deterministic_algorithms_enabled()
    torch.set_deterministic_debug_mode(2)
    assert torch.get_deterministic_debug_mode() == 2
    torch.set_deterministic_debug_mode(0)
    with pytest.raises(ValueError, match="set_deterministic_debug_mode: expected default, warn or error.*got 'loud'"):
        torch.set_deterministic_debug_mode("loud")
    torch.set_anomaly_enabled(True, False)
    assert torch.is_anomaly_enabled() and not torch.is_anomaly_check_nan_enabled()
    torch.set_anomaly_enabled(False)
    assert torch.detach(torch.ones(1, requires_grad=True)).requires_grad is False


def test_what_inference_mode_computes_is_an_ordinary_tensor():
    with torch.inference_mode():
        x = torch.ones(2) * 2
    assert not x.is_inference() and not torch.is_inference(x)
    (x.requires_grad_() * x).sum().backward()
    assert x.grad.tolist() == [4, 4]


def test_poisson_and_binomial():
    torch.manual_seed(0)
    rates = torch.full((20000,), 4.0)
    result = torch.poisson(rates)
    assert result.mean().item() == pytest.approx(4, abs=0.1) and result.var().item() == pytest.approx(4, abs=0.25)
    element, two = (torch.poisson(rates, torch.Generator().manual_seed(5)) for _ in range(2))
    assert (element == two).all()
    wins = torch.binomial(torch.full((20000, 1), 10.0), torch.tensor([0.25]))
    assert wins.mean().item() == pytest.approx(2.5, abs=0.1) and wins.shape == (20000, 1)
    with pytest.raises(ValueError, match="poisson: expected rates of at least 0"):
        torch.poisson(torch.tensor([-1.0]))
    with pytest.raises(ValueError, match="binomial: .*between 0 and 1"):
        torch.binomial(torch.tensor([1.0]), torch.tensor([1.5]))


# --- what is not here --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("ao.pruning.mine", "no quantization.*bfloat16"),
        ("distributed.checkpoint.staging.mine", "this way of splitting"),
    ],
)
def test_absent_modules_say_why(module, words):
    with pytest.raises(ModuleNotFoundError, match=f"No module named 'dynograd.{module.split('.')[0]}.*{words}"):
        importlib.import_module(f"dynograd.{module}")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("symeig", "linalg.eigh"),
        ("quantize_per_tensor", "int8"),
        ("lobpcg", "eigh"),
    ],
)
def test_absent_names_say_why(name, words):
    assert not hasattr(torch, name)
    with pytest.raises(AttributeError, match=f"no attribute '{name}': .*{words}"):
        getattr(torch, name)


@pytest.mark.parametrize("name", ["coalesce", "indices", "values", "crow_indices", "is_coalesced"])
def test_what_only_sparse_tensors_have(name):
    with pytest.raises(RuntimeError, match=rf"{name}: the tensor is dense.*to_sparse\(\)"):
        getattr(torch.ones(2, 2), name)()


def test_paths_that_pytorch_imports_itself_are_attributes():
    assert torch.storage.UntypedStorage is torch.UntypedStorage and torch.torch_version.TorchVersion
    assert torch.utils.collect_env.get_pretty_env_info().startswith("versions\n  dynograd")
    assert torch.ones(2).int().type(torch.Tensor).dtype is torch.float32


def test_results_with_names_are_shown_in_lines():
    assert repr(torch.tensor([[1.0, 2.0]]).max(1)) == (
        "dynograd.return_types.max(\nvalues=tensor([2.]),\nindices=tensor([1]))"
    )


def test_orders_of_dims_that_are_clear():
    x = torch.empty(2, 3, 4, 5)
    assert x.dim_order(ambiguity_check=True) == (0, 1, 2, 3)
    assert x.dim_order(ambiguity_check=[torch.contiguous_format, torch.channels_last]) == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.float32, math.nan), (torch.int8, 127), (torch.uint8, 255), (torch.bool, True)]
)
def test_memory_that_nothing_was_written_to_repeats(dtype, value):
    torch.use_deterministic_algorithms(True)
    try:
        results = [torch.empty(2, dtype=dtype), torch.empty_like(torch.ones(2, dtype=dtype))]
        results += [torch.empty_strided((2,), (1,), dtype=dtype), torch.ones(1, dtype=dtype).new_empty(2)]
        numpy.testing.assert_array_equal(torch.stack(results).numpy(), numpy.full((4, 2), value))
        torch.utils.deterministic.fill_uninitialized_memory = False
        assert determinism.filling(dtype.numpy) is None
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = True
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("shape", [(5, 0), (0, 3), (5, 0, 3, 0, 2)])
def test_steps_of_tensors_without_elements_are_those_of_dims_of_one(shape):
    assert torch.empty(shape).stride() == torch.empty([size or 1 for size in shape]).stride()
    assert torch.ones(5, 3)[:, 2:2].stride() == (3, 1)


@pytest.mark.parametrize("bounds", [(1j, 2), (0, 2 - 1j), (torch.tensor(1j), 3.0)])
def test_numbers_between_complex_ones(bounds):
    start, end = (complex(bound.item() if isinstance(bound, torch.Tensor) else bound) for bound in bounds)
    exponents = numpy.linspace(start, end, 4)
    for values, expected in ((torch.linspace(*bounds, 4), exponents), (torch.logspace(*bounds, 4), 10**exponents)):
        assert values.dtype is torch.complex64
        numpy.testing.assert_allclose(values.numpy(), expected, rtol=1e-5)
    with pytest.raises(RuntimeError, match=r"linspace: (start|end).*complex.*Pass dtype=dynograd.complex64"):
        torch.linspace(*bounds, 4, dtype=torch.float32)


@pytest.mark.parametrize(
    "module",
    """dynograd nn nn.functional nn.init nn.utils nn.utils.rnn linalg fft special nested masked sparse func autograd distributed
    signal.windows utils.data testing cuda""".split(),
)
def test_public_functions_go_through_pickle(module):
    place = importlib.import_module("dynograd" if module == "dynograd" else f"dynograd.{module}")
    functions = {name: getattr(place, name) for name in dir(place) if name[0] != "_"}
    for name, function in functions.items():
        if inspect.isfunction(function):
            assert pickle.loads(pickle.dumps(function)) is function, name
