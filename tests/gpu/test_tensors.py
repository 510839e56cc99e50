"""Tensors, modules and optimizers on the device: moves, states, checkpoints, gradients, errors, and that training never waits."""

import copy
import pickle

import numpy
import pytest

import dynograd as dg
from dynograd import nn
from dynograd.cuda import driver
from dynograd.data import DataLoader, TensorDataset
from dynograd.errors import DeviceError, InplaceError

CUDA = dg.device("cuda", 0)


def on_gpu(*shape, **options):
    return dg.randn(*shape, **options).cuda()


def small_model():
    dg.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))


def test_moves():
    x = dg.randn(2, 3)
    y = x.to("cuda")
    assert y.device == CUDA and y.is_cuda and y.get_device() == 0 and x.get_device() == -1
    assert y.cuda() is y and y.to("cuda:0") is y and x.cpu() is x
    assert dg.equal(y.cpu(), x) and y.cpu().device == dg.device("cpu")
    assert y.to(x).device == x.device and x.to(y).device == CUDA
    half = x.to("cuda", dg.bfloat16, non_blocking=True)
    assert half.dtype is dg.bfloat16 and half.device == CUDA
    assert repr(dg.ones(2, device="cuda")) == "tensor([1., 1.], device='cuda:0')"


def test_gradients_go_through_moves():
    x = dg.randn(3, requires_grad=True)
    (x.cuda() * 2).sum().cpu().backward()
    assert x.grad.device == dg.device("cpu") and x.grad.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda **where: dg.zeros(2, 3, **where),
        lambda **where: dg.full((2,), 3.0, **where),
        lambda **where: dg.empty(2, **where),
        lambda **where: dg.arange(5, **where),
        lambda **where: dg.linspace(0, 1, 5, **where),
        lambda **where: dg.eye(3, **where),
        lambda **where: dg.tensor([[1, 2]], **where),
        lambda **where: dg.as_tensor([1.0], **where),
        lambda **where: dg.rand(3, **where),
        lambda **where: dg.randn(3, **where),
        lambda **where: dg.randint(0, 9, (4,), **where),
        lambda **where: dg.randperm(6, **where),
        lambda **where: dg.zeros(2).new_ones(3, **where),
        lambda **where: dg.ones_like(dg.zeros(2), **where),
        lambda **where: dg.Tensor(2, 3, **where),
    ],
)
def test_creation_on_the_device_is_that_of_the_cpu(make):
    dg.manual_seed(3)
    there = make(device="cuda")
    dg.manual_seed(3)
    here = make()
    assert there.device == CUDA and there.dtype is here.dtype and there.shape == here.shape
    if not numpy.isnan(here.numpy()).any():
        numpy.testing.assert_allclose(
            there.cpu().numpy(), here.numpy(), rtol=2e-7
        ) if here.is_floating_point() else None
    if not here.is_floating_point():
        assert there.tolist() == here.tolist()


def test_like_functions_stay_on_the_device():
    x = on_gpu(2, 2)
    for created in (dg.zeros_like(x), dg.rand_like(x), dg.empty_like(x), x.new_zeros(3), x.clone(), x.detach(), x.T):
        assert created.device == CUDA


def test_in_place_and_views():
    x = dg.zeros(3, 4, device="cuda")
    x[1] = 2.0
    x.T[0].add_(1)
    x += 1
    assert x.tolist() == [[2, 1, 1, 1], [4, 3, 3, 3], [2, 1, 1, 1]]
    assert x.view(12).data_ptr() == x.data_ptr() and x[1].storage_offset() == 4
    x.zero_()
    assert not x.any()
    y = on_gpu(3, requires_grad=True)
    squared = y * y
    y.data.mul_(2)
    squared.sum().backward()
    z = on_gpu(3).requires_grad_()
    out = z.exp()
    out.mul_(2)
    with pytest.raises(InplaceError):
        out.exp().add_(1).sum().backward()
        (z.exp().mul_(2)).sum().backward()


def test_pickle_deepcopy_and_numpy():
    x = on_gpu(2, 3)
    for created in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert created.device == CUDA and dg.equal(created, x) and created.data_ptr() != x.data_ptr()
    with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu\(\)"):
        x.numpy()
    with pytest.raises(TypeError, match="cuda:0"):
        numpy.asarray(x)


@pytest.mark.parametrize(
    "call",
    [
        lambda there, here: there + here,
        lambda there, here: here * there,
        lambda there, here: there @ here,
        lambda there, here: here @ there,
        lambda there, here: dg.cat([there, here]),
        lambda there, here: nn.functional.linear(here, there),
        lambda there, here: dg.where(there > 0, there, here),
        lambda there, here: nn.Linear(2, 2)(there),
    ],
)
def test_tensors_of_two_devices_are_an_error_that_names_both(call):
    with pytest.raises(DeviceError, match="same device.*(cuda:0 and cpu|cpu and cuda:0)"):
        call(on_gpu(2, 2), dg.randn(2, 2))


def test_a_number_on_the_cpu_may_stand_beside_a_tensor_on_the_device():
    x = on_gpu(3)
    assert (x * dg.tensor(2.0)).device == CUDA and (dg.tensor(2.0) - x).device == CUDA


def test_no_such_device():
    with pytest.raises(DeviceError, match="cuda:97"):
        dg.zeros(2, device="cuda:97")


def test_modules_and_their_optimizers_move():
    model = small_model().cuda()
    assert {str(each.device) for each in model.state_dict().values()} == {"cuda:0"}
    optimizer = dg.optim.AdamW(model.parameters(), lr=0.1)
    model(on_gpu(5, 4)).sum().backward()
    optimizer.step()
    moments = [state["exp_avg"] for state in optimizer.state.values()]
    assert all(moment.device == CUDA for moment in moments)
    on_cpu = small_model()
    on_cpu.load_state_dict(model.state_dict())
    other = dg.optim.AdamW(on_cpu.parameters(), lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    assert {str(state["exp_avg"].device) for state in other.state.values()} == {"cpu"}
    for element, two in zip(model.parameters(), on_cpu.parameters(), strict=True):
        assert dg.equal(element.detach().cpu(), two.detach())


@pytest.mark.parametrize("optimizer", [dg.optim.SGD, dg.optim.AdamW])
def test_training_is_that_of_the_cpu(optimizer):
    losses = []
    for device in ("cpu", "cuda"):
        model = small_model().to(device)
        opt = optimizer(model.parameters(), lr=0.05)
        dg.manual_seed(1)
        x, y = dg.randn(16, 4).to(device), dg.randint(0, 3, (16,)).to(device)
        results = []
        for _ in range(3):
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            results.append(loss.detach())
        losses.append([result.item() for result in results])
    numpy.testing.assert_allclose(*losses, rtol=2e-5)


def test_a_training_step_never_waits_for_the_device():
    model = small_model().cuda()
    opt = dg.optim.AdamW(model.parameters(), lr=0.05)
    x, y = on_gpu(16, 4), dg.randint(0, 3, (16,)).cuda()
    for step in range(3):
        before = driver.synchronizations()
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        assert driver.synchronizations() == before, f"step {step}"
    assert loss.item() > 0 and driver.synchronizations() > before


def test_checkpoints_go_back_to_the_device(tmp_path):
    x = on_gpu(2, 3)
    dg.save({"x": x, "y": dg.ones(2)}, tmp_path / "state.dg")
    result = dg.load(tmp_path / "state.dg")
    assert result["x"].device == CUDA and result["y"].device == dg.device("cpu") and dg.equal(result["x"], x)
    assert dg.load(tmp_path / "state.dg", map_location="cpu")["x"].device == dg.device("cpu")
    assert dg.load(tmp_path / "state.dg", map_location={"cpu": "cuda:0"})["y"].device == CUDA


def test_files_for_other_libraries(tmp_path):
    x = on_gpu(2, 3)
    dg.save({"x": x, "turned": x.t(), "y": dg.ones(2)}, tmp_path / "a.pt", format="pt")
    back = dg.load(tmp_path / "a.pt")
    assert back["x"].device == CUDA and back["y"].is_cpu and dg.equal(back["turned"], x.t())
    assert back["turned"].data_ptr() == back["x"].data_ptr()
    dg.save({"x": x.t()}, tmp_path / "a.npz", format="npz")
    dg.saving.save_folder({"x": x.t()}, tmp_path)
    assert dg.equal(dg.load(tmp_path / "a.npz", map_location="cuda")["x"], x.t())
    assert dg.equal(dg.saving.load_folder(tmp_path, "cuda").tensors["x"], x.t())


def test_a_checkpoint_of_a_gpu_is_read_without_one(tmp_path, monkeypatch):
    dg.save({"x": on_gpu(2)}, tmp_path / "state.dg")
    monkeypatch.setattr("dynograd.cuda.is_available", lambda: False)
    with pytest.warns(UserWarning, match=r"saved on cuda:0.*map_location='cpu'"):
        assert dg.load(tmp_path / "state.dg")["x"].device == dg.device("cpu")


def test_pinned_memory():
    x = dg.arange(6).view(2, 3)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned and dg.equal(pinned, x)
    assert dg.equal(pinned.to("cuda", non_blocking=True).cpu(), x)
    with pytest.raises(RuntimeError, match="cannot pin 'cuda:0' memory"):
        x.cuda().pin_memory()
    loader = DataLoader(TensorDataset(dg.randn(4, 2), dg.arange(4)), batch_size=2, pin_memory=True)
    assert all(element.is_pinned() for batch in loader for element in batch)


def test_second_gradients():
    x = on_gpu(4, requires_grad=True)
    (first,) = dg.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    (second,) = dg.autograd.grad(first.sum(), x)
    expected = 2 * numpy.cos(x.detach().cpu().numpy()) - x.detach().cpu().numpy() * numpy.sin(x.detach().cpu().numpy())
    numpy.testing.assert_allclose(second.cpu().numpy(), expected, rtol=1e-5, atol=1e-6)
