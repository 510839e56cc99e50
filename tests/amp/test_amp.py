"""Mixed precision: which dtypes ops have inside `autocast`, its state, and the GradScaler."""

import copy
import gc
import pickle
import threading
import weakref

import numpy
import pytest

import dynograd
from dynograd import nn
from dynograd.amp import GradScaler, autocasting, custom_bwd, custom_fwd

F = nn.functional
BF16, F16, F32, F64 = dynograd.bfloat16, dynograd.float16, dynograd.float32, dynograd.float64
ones = dynograd.ones
targets = dynograd.tensor([0, 1, 0])

# what: a function of a float32 (3, 4) tensor and a bfloat16 one; the dtype of the result
DTYPES = {
    "matmul": (lambda x, h: x @ x.T, BF16),
    "mixed matmul": (lambda x, h: x @ h.T, BF16),
    "mm": (lambda x, h: dynograd.mm(x, x.T), BF16),
    "bmm": (lambda x, h: dynograd.bmm(x[None], x.T[None]), BF16),
    "addmm": (lambda x, h: dynograd.addmm(ones(3), x, x.T), BF16),
    "einsum": (lambda x, h: dynograd.einsum("ij,kj->ik", x, x), BF16),
    "linear": (lambda x, h: nn.Linear(4, 2)(x), BF16),
    "conv": (lambda x, h: nn.Conv1d(3, 2, 2)(x[None]), BF16),
    "conv of half": (lambda x, h: nn.Conv1d(3, 2, 2)(h[None]), BF16),
    "conv of half, beside float32": (lambda x, h: F.conv2d(h[None, None], ones(2, 1, 2, 2), padding="same"), BF16),
    "transposed conv": (lambda x, h: nn.ConvTranspose1d(3, 2, 2)(x[None]), BF16),
    "convs one after another": (
        lambda x, h: nn.Sequential(nn.Conv1d(3, 2, 2), nn.GroupNorm(1, 2), nn.Conv1d(2, 2, 1))(x[None]),
        BF16,
    ),
    "attention": (lambda x, h: F.scaled_dot_product_attention(x[None], x[None], x[None]), BF16),
    "lstm": (lambda x, h: nn.LSTM(4, 3)(x[None])[0], BF16),
    "gru": (lambda x, h: nn.GRU(4, 3)(x[None])[0], BF16),
    "lstm cell": (lambda x, h: nn.LSTMCell(4, 3)(x)[0], BF16),
    "float64 is left alone": (lambda x, h: x.double() @ x.double().T, F64),
    "integers are left alone": (lambda x, h: x.long() @ x.long().T, dynograd.int64),
    "exp": (lambda x, h: h.exp(), BF16),
    "softmax": (lambda x, h: F.softmax(h, -1), BF16),
    "sum": (lambda x, h: h.sum(), BF16),
    "layer norm": (lambda x, h: nn.LayerNorm(4)(h), BF16),
    "batch norm": (lambda x, h: nn.BatchNorm1d(4)(h), BF16),
    "group norm": (lambda x, h: nn.GroupNorm(1, 4)(h), BF16),
    "layer norm of float32": (lambda x, h: nn.LayerNorm(4)(x), F32),
    "cross entropy": (lambda x, h: F.cross_entropy(h, targets), F32),
    "mse": (lambda x, h: F.mse_loss(h, h), F32),
    "l1": (lambda x, h: F.l1_loss(h, h), F32),
    "bce with logits": (lambda x, h: F.binary_cross_entropy_with_logits(h, h.sigmoid()), F32),
    "ctc": (lambda x, h: F.ctc_loss(h[:, None], dynograd.tensor([[1]]), (3,), (1,)), F32),
    "linear cross entropy": (lambda x, h: F.linear_cross_entropy(h, x, targets), F32),
    "linear cross entropy in chunks": (
        lambda x, h: F.linear_cross_entropy(h, x, targets, options=nn.LinearCrossEntropyOptions(batch_chunk_size=2)),
        F32,
    ),
    "prod": (lambda x, h: h.prod(), F32),
    "cat": (lambda x, h: dynograd.cat([h, x]), F32),
    "cat of half": (lambda x, h: dynograd.cat([h, h]), BF16),
    "add": (lambda x, h: h + x, F32),
    "transformer": (lambda x, h: nn.TransformerEncoderLayer(4, 2, 8)(x), F32),
}


@pytest.mark.parametrize("what", DTYPES)
def test_dtypes_on_the_cpu(what):
    function, expected = DTYPES[what]
    x = ones(3, 4)
    h = x.to(BF16)
    with dynograd.autocast("cpu"):
        result = function(x, h)
    assert result.dtype is expected


def test_results_and_gradients_are_near_those_of_float32():
    dynograd.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 3))
    x = dynograd.randn(5, 8)
    labels = dynograd.tensor([0, 1, 2, 0, 1])
    losses, gradients = [], []
    for enabled in (False, True):
        model.zero_grad()
        with dynograd.autocast("cpu", enabled=enabled):
            loss = F.cross_entropy(model(x), labels)
        loss.backward()
        losses.append(loss.item())
        gradients.append([p.grad.numpy().copy() for p in model.parameters()])
        assert all([p.grad.dtype is F32 for p in model.parameters()])
    assert losses[0] != losses[1]
    assert abs(losses[0] - losses[1]) < 0.03
    for element, other in zip(*gradients, strict=True):
        assert numpy.abs(element - other).max() < 0.03


def test_float16_and_nesting():
    x = ones(2, 2)
    with dynograd.autocast("cpu", dtype=F16):
        assert (x @ x).dtype is F16
        with dynograd.autocast("cpu", enabled=False):
            assert (x @ x).dtype is F32
            with dynograd.autocast("cpu", dtype=BF16):
                assert (x @ x).dtype is BF16
        assert (x @ x).dtype is F16
        assert dynograd.get_autocast_dtype("cpu") is F16
    assert dynograd.get_autocast_dtype("cpu") is BF16
    assert (x @ x).dtype is F32


def test_outside_a_region_ops_have_their_plain_code():
    plain = dynograd.Tensor.matmul.__code__
    x = ones(2, 2)
    x @ x
    plain = dynograd.Tensor.matmul.__code__
    with dynograd.autocast("cpu"):
        assert dynograd.Tensor.matmul.__code__ is not plain
        with dynograd.autocast("cpu", enabled=False):
            pass
        assert dynograd.Tensor.matmul.__code__ is not plain
    assert dynograd.Tensor.matmul.__code__ is plain
    with pytest.raises(ZeroDivisionError), dynograd.autocast("cpu"):
        1 / 0  # noqa: B018
    assert dynograd.Tensor.matmul.__code__ is plain
    assert not dynograd.is_autocast_enabled("cpu")


def test_other_threads_are_not_autocast():
    x, seen = ones(2, 2), []
    with dynograd.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert seen == [F32]


def test_decorator_and_reuse():
    region = dynograd.autocast("cpu")
    function = region(lambda x: (x @ x).dtype)
    assert function(ones(2, 2)) is BF16
    with region, region:
        assert (ones(2, 2) @ ones(2, 2)).dtype is BF16
    assert not dynograd.is_autocast_enabled("cpu")


def test_parameters_are_cast_once():
    weight = ones(2, 2).requires_grad_()
    with dynograd.autocast("cpu"):
        x = ones(2, 2)
        out = x @ weight + x @ weight
        assert len(autocasting.STATE.cache) == 1
        with dynograd.no_grad():
            assert not (x @ weight).requires_grad
        assert (x @ weight).requires_grad
        with dynograd.no_grad():
            weight.mul_(3)
        assert (x @ weight)[0, 0].item() == 6
        dynograd.clear_autocast_cache()
        assert not autocasting.STATE.cache
        assert (x @ weight)[0, 0].item() == 6
    assert not autocasting.STATE.cache
    out.sum().backward()
    assert weight.grad.tolist() == [[4, 4], [4, 4]]
    with dynograd.autocast("cpu", cache_enabled=False):
        assert not dynograd.is_autocast_cache_enabled()
        x @ weight
        assert not autocasting.STATE.cache
    assert dynograd.is_autocast_cache_enabled()


def test_state_by_its_functions():
    dynograd.set_autocast_enabled("cpu", True)
    dynograd.set_autocast_dtype("cpu", F16)
    try:
        assert (ones(2, 2) @ ones(2, 2)).dtype is F16
    finally:
        dynograd.set_autocast_enabled("cpu", False)
        dynograd.set_autocast_dtype("cpu", BF16)
    assert (ones(2, 2) @ ones(2, 2)).dtype is F32
    dynograd.set_autocast_cache_enabled(False)
    assert not dynograd.is_autocast_cache_enabled()
    dynograd.set_autocast_cache_enabled(True)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: dynograd.autocast("tpu"), RuntimeError, "unsupported autocast device_type 'tpu'"),
        (lambda: dynograd.autocast(None), ValueError, "Expected `device_type` of type `str`"),
        (lambda: dynograd.is_autocast_enabled("tpu"), RuntimeError, "unsupported device type 'tpu'"),
        (lambda: custom_fwd(device_type="tpu"), ValueError, "expected device_type 'cuda' or 'cpu'"),
        (lambda: custom_bwd(device_type="tpu"), ValueError, "expected device_type 'cuda' or 'cpu'"),
        (lambda: GradScaler("cpu", growth_factor=1.0), ValueError, "growth factor must be > 1.0"),
        (lambda: GradScaler("cpu", backoff_factor=1.0), ValueError, "backoff factor must be < 1.0"),
    ],
)
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_dtypes_that_are_not_supported_disable():
    with pytest.warns(UserWarning, match="the target dtype dynograd.float32 is not supported"):
        region = dynograd.autocast("cpu", dtype=F32)
    with region:
        assert (ones(2, 2) @ ones(2, 2)).dtype is F32


class Product(dynograd.autograd.Function):
    seen: list = []

    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x @ y

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        Product.seen.append(dynograd.is_autocast_enabled("cpu"))
        return g @ y.T, x.T @ g


class Wide(dynograd.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu", cast_inputs=F32)
    def forward(ctx, x):
        assert not dynograd.is_autocast_enabled("cpu")
        return x @ x

    @staticmethod
    @custom_bwd(device_type="cpu")
    def backward(ctx, g):
        return g


def test_custom_functions():
    x = ones(2, 2).requires_grad_()
    with dynograd.autocast("cpu"):
        out = Product.apply(x, x)
        assert out.dtype is BF16
        assert Wide.apply(ones(2, 2).to(BF16)).dtype is F32
    out.float().sum().backward()
    assert Product.seen == [True]
    assert Product.apply(x, x).dtype is F32
    assert Wide.apply(ones(2, 2).to(BF16)).dtype is BF16


# --- GradScaler --------------------------------------------------------------------------------------------------------------


def trained(scaler, steps, bad=(), make=lambda ps: dynograd.optim.SGD(ps, lr=0.1)):
    w = dynograd.tensor([1.0, 2.0], requires_grad=True)
    optimizer = make([w])
    for step in range(steps):
        optimizer.zero_grad()
        loss = (w * w).sum() * (float("inf") if step in bad else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return w


def test_steps_are_those_without_scaling_and_bad_ones_are_skipped():
    plain = trained(GradScaler("cpu", enabled=False), 3)
    scaler = GradScaler("cpu", init_scale=1024.0)
    numpy.testing.assert_allclose(trained(scaler, 3).tolist(), plain.tolist(), rtol=1e-6)
    assert scaler.get_scale() == 1024
    skipped = trained(scaler, 4, bad=(1,))
    numpy.testing.assert_allclose(skipped.tolist(), plain.tolist(), rtol=1e-6)
    assert scaler.get_scale() == 512


def test_growth_and_its_count():
    scaler = GradScaler("cpu", init_scale=4.0, growth_interval=2, growth_factor=8.0, backoff_factor=0.25)
    trained(scaler, 5, bad=(3,))
    # 1 good, 2 good: times 8; 3 good; bad: a quarter; good
    assert scaler.state_dict() == {
        "scale": 8.0,
        "growth_factor": 8.0,
        "backoff_factor": 0.25,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }


def test_defaults():
    assert GradScaler("cpu").state_dict() == {
        "scale": 65536.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 0,
    }


def test_the_scale_never_grows_to_infinity():
    scaler = GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    w = dynograd.tensor([0.0], requires_grad=True)
    optimizer = dynograd.optim.SGD([w], lr=0.1)
    scaler.scale((w * 0).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127


def test_saving_loading_pickling_and_setting():
    scaler = GradScaler("cpu", init_scale=16.0, growth_interval=3)
    trained(scaler, 2)
    for again in (pickle.loads(pickle.dumps(scaler)), copy.deepcopy(scaler), GradScaler("cpu")):
        again.load_state_dict(scaler.state_dict())
        assert again.state_dict() == scaler.state_dict()
        trained(again, 1)
        assert again.get_scale() == 32
    scaler.load_state_dict({**scaler.state_dict(), "scale": 2.0})
    assert scaler.get_scale() == 2
    trained(scaler, 1)
    w = dynograd.tensor([1.0], requires_grad=True)
    scaler.scale(w.sum())
    scaler.update(7.0)
    assert scaler.get_scale() == 7
    scaler.update(dynograd.tensor(9.0))
    assert scaler.get_scale() == 9
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.1)
    scaler.set_growth_interval(5)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (3.0, 0.1, 5)


def test_disabled():
    scaler = GradScaler("cpu", enabled=False)
    loss = ones(2)
    assert scaler.scale(loss) is loss
    assert scaler.state_dict() == {}
    assert scaler.get_scale() == 1.0
    assert not scaler.is_enabled()
    scaler.load_state_dict({})
    scaler.unscale_(None)
    scaler.update()


def test_several_outputs_are_scaled():
    scaler = GradScaler("cpu", init_scale=2.0)
    element, other = scaler.scale([ones(1), ones(2)])
    assert element.tolist() == [2]
    assert other.tolist() == [2, 2]
    assert isinstance(scaler.scale((ones(1),)), tuple)


def test_clipping_between():
    scaler, w = GradScaler("cpu", init_scale=1024.0), dynograd.tensor([3.0, 4.0], requires_grad=True)
    optimizer = dynograd.optim.SGD([w], lr=0.1)
    scaler.scale((w * w).sum() / 2).backward()
    scaler.unscale_(optimizer)
    assert dynograd.nn.utils.clip_grad_norm_([w], 1.0).item() == 5
    scaler.step(optimizer)
    scaler.update()
    numpy.testing.assert_allclose(w.tolist(), [2.94, 3.92], rtol=1e-6)


def misuse(scaler, what):
    w = dynograd.tensor([1.0], requires_grad=True, dtype=F16 if what == "half" else F32)
    optimizer = dynograd.optim.SGD([w], lr=0.1)
    if what == "no scale":
        scaler.step(optimizer)
    if what == "outputs":
        scaler.scale(3)
    loss = scaler.scale(w.sum())
    if what == "no gradients":
        scaler.step(optimizer)
    if what == "nothing recorded":
        scaler.update()
    loss.backward()
    if what == "closure":
        scaler.step(optimizer, closure=lambda: None)
    scaler.unscale_(optimizer)
    if what == "pickle":
        pickle.dumps(scaler)
    if what == "unscale twice":
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    if what == "step twice":
        scaler.step(optimizer)
    scaler.unscale_(optimizer)


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("no scale", AssertionError, "Attempted step but _scale is None"),
        ("outputs", ValueError, "outputs must be a Tensor or an iterable of Tensors"),
        ("no gradients", AssertionError, "No inf checks were recorded for this optimizer"),
        ("nothing recorded", AssertionError, "No inf checks were recorded prior to update"),
        ("closure", RuntimeError, "Closure use is not currently supported"),
        ("half", ValueError, "Attempting to unscale FP16 gradients"),
        ("pickle", AssertionError, "may only be pickled at the beginning of an iteration"),
        ("unscale twice", RuntimeError, "has already been called on this optimizer"),
        ("step twice", RuntimeError, "step.. has already been called since the last update"),
        ("unscale after step", RuntimeError, "is being called after step"),
    ],
)
def test_misuse(what, error, text):
    with pytest.raises(error, match=text):
        misuse(GradScaler("cpu"), what)


def test_loading_nothing():
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        GradScaler("cpu").load_state_dict({})


@pytest.mark.skipif(dynograd.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_cuda_is_disabled():
    with pytest.warns(UserWarning, match="CUDA is not available"):
        region = dynograd.autocast("cuda")
    with region:
        assert (ones(2, 2) @ ones(2, 2)).dtype is F32
    with pytest.warns(UserWarning, match="CUDA is not available"):
        assert not dynograd.cuda.amp.GradScaler().is_enabled()


def test_shortcuts_do_not_pass_by_the_casts():
    """`bmm`, `prod` and `cat` compute small arrays at once; inside a region they cast as before."""
    x, half = dynograd.ones(2, 3, 3), dynograd.ones(2, 3, 3, dtype=dynograd.bfloat16)
    for _ in range(2):  # written by now
        assert dynograd.bmm(x, x).dtype is dynograd.float32 and dynograd.cat([x, x]).dtype is dynograd.float32
        assert half.prod(1).dtype is dynograd.bfloat16
        with dynograd.autocast("cpu"):
            assert dynograd.bmm(x, x).dtype is dynograd.bfloat16 and half.prod(1).dtype is dynograd.float32
            assert dynograd.cat([x, half]).dtype is dynograd.float32 and x.sum(1).dtype is dynograd.float32
            with dynograd.autocast("cpu", enabled=False):
                assert dynograd.bmm(x, x).dtype is dynograd.float32
    assert dynograd.bmm(x, x).dtype is dynograd.float32


def test_a_scaler_keeps_the_optimizers_it_has_unscaled():
    """Their states lie under their places in memory, which must not go to another optimizer before `update`."""
    p = dynograd.nn.Parameter(dynograd.ones(2))
    scaler, optimizer = dynograd.amp.GradScaler("cpu", init_scale=2.0), dynograd.optim.SGD([p], lr=0.1)
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    living = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert living() is not None
    scaler.step(living())
    scaler.update()
    gc.collect()
    assert living() is None


def test_optimizers_of_users_may_say_that_they_look_at_infinite_gradients():
    class Looks(dynograd.optim.SGD):
        def __init__(self, parameters):
            super().__init__(parameters, lr=1.0)
            self._step_supports_amp_scaling = True
            self.seen = []

        def step(self, closure=None):
            self.seen.append(self.found_inf.item())

    w = dynograd.ones(1, requires_grad=True)
    optimizer, scaler = Looks([w]), dynograd.amp.GradScaler("cpu")
    scaler.scale(w * float("inf")).sum().backward()
    scaler.step(optimizer)
    assert optimizer.seen == [1.0]


def test_a_scaler_of_a_program_may_replace_how_gradients_are_unscaled():
    class Halving(dynograd.amp.GradScaler):
        def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
            return super()._unscale_grads_(optimizer, inv_scale / 2, found_inf, True)

    w = dynograd.tensor([2.0, 1.0], requires_grad=True)
    half = dynograd.tensor([2.0], dtype=dynograd.float16, requires_grad=True)
    scaler, optimizer = Halving("cpu"), dynograd.optim.SGD([w, half], lr=1.0)
    (scaler.scale((w * w).sum())).backward()
    half.grad = dynograd.full((1,), 1024.0, dtype=dynograd.float16)
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [2.0, 1.0]
    assert half.grad.tolist() == [1024.0 / scaler.get_scale() / 2]
    assert scaler.step(optimizer) is None and w.tolist() == [0.0, 0.0]
