"""Sixty mistakes that users make, and what the message must say: the op, the argument, what was expected, what was got, the way out.

Inside a model the exception also carries a note with the module's path and its parameters. A row names words of the message; `note`
words of the note. A message that lost one of them is a bug, as a wrong result is.
"""

import copy
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest

import dynograd
from dynograd import nn, optim
from dynograd.nn import functional as F

tensor, zeros, ones, randn = dynograd.tensor, dynograd.zeros, dynograd.ones, dynograd.randn


@dataclass
class Mistake:
    name: str
    call: Any
    kind: Any
    words: str  # separated by |
    note: str = ""


class Model(nn.Module):
    """Where a mistake sits deep inside a model."""

    def __init__(self, part):
        super().__init__()
        self.encoder = nn.ModuleDict({"blocks": nn.ModuleList([nn.Identity(), part])})

    def forward(self, *inputs):
        return self.encoder["blocks"][1](*inputs)


def inside(part, *inputs):
    """Calls `part` deep inside a model; the note must name its path."""
    return lambda: Model(part)(*inputs)


PATH = "Model.encoder.blocks.1"


def without_init():
    class Broken(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(2, 2)

    Broken()


def call_without_init():
    class Broken(nn.Module):
        def __init__(self):
            self.width = 3

        def forward(self, x):
            return x

    return Broken()(ones(2))


def no_forward():
    class Empty(nn.Module):
        def forwrad(self, x):
            return x

    return Empty()(ones(2))


def backward_twice():
    x = ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward()
    y.backward()


def changed_before_backward():
    x = ones(3, requires_grad=True)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


def nan_loss():
    with dynograd.autograd.detect_anomaly():
        x = tensor([-1.0], requires_grad=True)
        (x.sqrt() * 0).sum().backward()


def wrong_state():
    nn.Linear(3, 2).load_state_dict({"weight": zeros(2, 4), "offset": zeros(2)})


def state_of_another_model():
    Model(nn.Linear(2, 2)).load_state_dict(nn.Linear(2, 2).state_dict())


def step_without_loss():
    loss = optim.SGD([ones(2)], 0.1)
    loss.step()


def stepped_lr_on_nothing():
    optim.lr_scheduler.StepLR(nn.Linear(2, 2), 1)


def optimizer_state_of_another():
    element = optim.SGD(nn.Linear(2, 2).parameters(), 0.1)
    other = optim.SGD([nn.Parameter(ones(2))], 0.1)
    other.load_state_dict(element.state_dict())


MISTAKES = [
    # --- shapes into layers
    Mistake("linear features", inside(nn.Linear(256, 10), ones(8, 512)), RuntimeError, "linear|512|256|(8, 512)|(10, 256)|Linear(512, 10)", f"{PATH}: Linear|in_features=256|weight (10, 256)|bias (10,)"),
    Mistake("conv channels", inside(nn.Conv2d(3, 8, 3), ones(2, 1, 9, 9)), RuntimeError, "conv2d|input|3 channels|1 channels|[2, 1, 9, 9]|in_channels=1", f"{PATH}: Conv2d|weight (8, 3, 3, 3)"),
    Mistake("conv of features", inside(nn.Conv2d(3, 8, 3), ones(2, 9)), RuntimeError, "conv2d|input|[2, 9]|3D|4D", PATH),
    Mistake("kernel larger than image", inside(nn.Conv2d(3, 8, 5), ones(2, 3, 4, 4)), RuntimeError, "conv2d|(4 x 4)|(5 x 5)|padding", PATH),
    Mistake("conv1d channels last", inside(nn.Conv1d(16, 8, 3), ones(2, 50, 16)), RuntimeError, "conv1d|16 channels|50 channels|[2, 50, 16]|permute", PATH),
    Mistake("embedding of floats", inside(nn.Embedding(10, 4), ones(2, 3)), (RuntimeError, TypeError), "embedding|indices|float32|Long|.long()", f"{PATH}: Embedding|weight (10, 4)"),
    Mistake("embedding out of range", inside(nn.Embedding(10, 4), tensor([[1, 2], [3, 12]])), IndexError, "embedding|12|[1, 1]|10 rows|(10, 4)", PATH),
    Mistake("embedding of a negative index", inside(nn.Embedding(10, 4), tensor([0, -1])), IndexError, "embedding|-1|10", PATH),
    Mistake("lstm features", inside(nn.LSTM(8, 16), ones(5, 2, 7)), RuntimeError, "LSTM|input|8|7|(5, 2, 7)", f"{PATH}: LSTM|weight_ih_l0 (64, 8)"),
    Mistake("lstm rank", inside(nn.LSTM(8, 16), ones(5, 2, 2, 8)), RuntimeError, "LSTM|2D or 3D|4D|(5, 2, 2, 8)|batch_first", PATH),
    Mistake("lstm state", inside(nn.LSTM(8, 16), ones(5, 2, 8), (zeros(1, 3, 16), zeros(1, 3, 16))), RuntimeError, "LSTM|(1, 2, 16)|(1, 3, 16)", PATH),
    Mistake("gru state is a pair", inside(nn.GRU(8, 16), ones(5, 2, 8), (zeros(1, 2, 16), zeros(1, 2, 16))), (RuntimeError, TypeError), "GRU|hx|one tensor|2 of them", PATH),
    Mistake("batch norm of other channels", inside(nn.BatchNorm2d(4), ones(2, 3, 5, 5)), RuntimeError, "BatchNorm2d|4|3|(2, 3, 5, 5)", f"{PATH}: BatchNorm2d|weight (4,)"),
    Mistake("batch norm of one value", inside(nn.BatchNorm1d(4), ones(1, 4)), (RuntimeError, ValueError), "batch_norm|more than 1 value per channel|[1, 4]|eval()", PATH),
    Mistake("layer norm of other features", inside(nn.LayerNorm(8), ones(2, 6)), RuntimeError, "layer_norm|[8]|[2, 6]", PATH),
    Mistake("group norm of other channels", lambda: nn.GroupNorm(3, 8), (RuntimeError, ValueError), "GroupNorm|num_channels|8|num_groups|3"),
    Mistake("attention width", inside(nn.MultiheadAttention(16, 2), ones(5, 1, 12), ones(5, 1, 12), ones(5, 1, 12)), (RuntimeError, AssertionError), "multi_head_attention|query|16|12|(5, 1, 12)|MultiheadAttention(12, 2)", f"{PATH}: MultiheadAttention|in_proj_weight (48, 16)"),
    Mistake("attention heads", lambda: nn.MultiheadAttention(16, 3), (AssertionError, ValueError, RuntimeError), "MultiheadAttention|embed_dim|16|num_heads|3"),
    Mistake("attention mask", inside(nn.MultiheadAttention(16, 2), ones(5, 1, 16), ones(5, 1, 16), ones(5, 1, 16), None, True, zeros(4, 4)), RuntimeError, "attn_mask|(4, 4)|(5, 5)", PATH),
    Mistake("scaled_dot_product_attention keys", lambda: F.scaled_dot_product_attention(ones(1, 2, 5, 8), ones(1, 2, 5, 4), ones(1, 2, 5, 8)), RuntimeError, "scaled_dot_product_attention|8|4|(1, 2, 5, 4)"),
    Mistake("pooling of features", inside(nn.MaxPool2d(2), ones(4, 5)), RuntimeError, "max_pool2d|3D or 4D|(4, 5)|unsqueeze", PATH),
    Mistake("flatten too little", lambda: nn.Sequential(OrderedDict(conv=nn.Conv2d(1, 2, 3), head=nn.Linear(2 * 6 * 6, 3)))(ones(4, 1, 8, 8)), RuntimeError, "linear|6|72|(4, 2, 6, 6)", "Sequential.head: Linear"),
    # --- losses
    Mistake("cross_entropy class out of range", lambda: F.cross_entropy(randn(4, 3), tensor([0, 1, 3, 2])), IndexError, "cross_entropy|Target 3|out of bounds|[2]|3 classes|(4, 3)"),
    Mistake("cross_entropy float classes", lambda: F.cross_entropy(randn(4, 3), tensor([0.0, 1.0, 2.0, 1.0])), (RuntimeError, ValueError), "cross_entropy|target|float32|(4,)|(4, 3)|.long()"),
    Mistake("cross_entropy batch", lambda: F.cross_entropy(randn(4, 3), tensor([0, 1])), (RuntimeError, ValueError), "cross_entropy|batch|4|2"),
    Mistake("cross_entropy one-hot as long", lambda: F.cross_entropy(randn(2, 3), tensor([[0, 1, 0], [1, 0, 0]])), RuntimeError, "cross_entropy|target|int64|(2, 3)"),
    Mistake("nll_loss in a model", inside(nn.NLLLoss(), randn(4, 3), tensor([0, 1, 7, 2])), IndexError, "nll_loss|Target 7|[2]|3 classes", f"{PATH}: NLLLoss"),
    Mistake("mse of other shapes", lambda: F.mse_loss(ones(4, 1), ones(3, 2, 2)), RuntimeError, "mse_loss|(4, 1)|(3, 2, 2)"),
    Mistake("bce outside of 0 and 1", lambda: F.binary_cross_entropy(tensor([1.5]), tensor([1.0])), RuntimeError, "binary_cross_entropy|1.5|between 0 and 1|with_logits"),
    Mistake("bce shapes", lambda: F.binary_cross_entropy(tensor([0.5, 0.5]), tensor([[1.0], [0.0]])), ValueError, "binary_cross_entropy|(2,)|(2, 1)"),
    Mistake("weights of other classes", lambda: F.cross_entropy(randn(4, 3), tensor([0, 1, 2, 0]), weight=ones(2)), RuntimeError, "cross_entropy|weight|3|2"),
    # --- dtypes
    Mistake("long into linear", inside(nn.Linear(3, 2), tensor([[1, 2, 3]])), RuntimeError, "linear|input|weight|int64|float32|(1, 3)|input.to(weight.dtype)", PATH),
    Mistake("double into linear", inside(nn.Linear(3, 2), ones(1, 3).double()), RuntimeError, "linear|float64|float32", PATH),
    Mistake("long into conv", inside(nn.Conv2d(1, 2, 3), ones(1, 1, 5, 5).long()), RuntimeError, "conv2d|int64|float32", PATH),
    Mistake("mean of ints", lambda: tensor([1, 2]).mean(), RuntimeError, "mean|int64|float"),
    Mistake("gradient of ints", lambda: tensor([1, 2], requires_grad=True), RuntimeError, "requires_grad|int64|float()"),
    Mistake("float into long in place", lambda: tensor([1, 2]).add_(0.5), RuntimeError, "add_|float32|int64"),
    Mistake("matmul of two dtypes", lambda: ones(2, 2) @ ones(2, 2).double(), RuntimeError, "matmul|float32|float64"),
    Mistake("bool minus bool", lambda: tensor([True]) - tensor([False]), RuntimeError, "sub|two bool tensors|logical_xor|.int()"),
    Mistake("strings", lambda: tensor(["a", "b"]), (TypeError, ValueError), "tensor|numbers|'a'|Map words"),
    Mistake("lists of different lengths", lambda: tensor([[1, 2], [3]]), ValueError, "tensor|2|1|pad"),
    # --- devices
    Mistake("cuda where there is none", lambda: ones(2).to("cuda:17"), (RuntimeError, AssertionError), "cuda"),
    Mistake("a device that is none", lambda: ones(2).to("gpu"), RuntimeError, "gpu|cpu|cuda"),
    # --- shapes
    Mistake("matmul", lambda: ones(2, 3) @ ones(4, 5), RuntimeError, "matmul|3|4|(2, 3)|(4, 5)"),
    Mistake("broadcasting", lambda: ones(3, 4) + ones(3), RuntimeError, "add|(3, 4)|(3,)|4 |unsqueeze"),
    Mistake("view of a transposed", lambda: ones(2, 3).t().view(6), RuntimeError, "view|(3, 2)|reshape|contiguous"),
    Mistake("reshape", lambda: ones(2, 3).reshape(4, 2), RuntimeError, "reshape|[4, 2]|6"),
    Mistake("cat", lambda: dynograd.cat([ones(2, 3), ones(2, 4)]), RuntimeError, "cat|dimension 0|3|4|number 1"),
    Mistake("stack", lambda: dynograd.stack([ones(2), ones(3)]), RuntimeError, "stack|[2]|[3]|entry 1"),
    Mistake("dim out of range", lambda: ones(2, 3).softmax(2), IndexError, "softmax|[-2, 1]|2"),
    Mistake("squeeze of nothing", lambda: ones(2, 3).permute(0, 2), (RuntimeError, IndexError), "permute|2"),
    Mistake("expand", lambda: ones(2, 3).expand(4, 3), RuntimeError, "expand|4|2|(2, 3)"),
    Mistake("pad_sequence of ints", lambda: nn.utils.rnn.pad_sequence([1, 2]), (RuntimeError, TypeError), "pad_sequence|Tensor|int"),
    # --- gradients
    Mistake("backward twice", backward_twice, RuntimeError, "backward|second time|retain_graph=True"),
    Mistake("backward of many", lambda: (ones(3, requires_grad=True) * 2).backward(), RuntimeError, "backward|scalar|(3,)|sum()"),
    Mistake("backward of a constant", lambda: ones(1).sum().backward(), RuntimeError, "backward|does not require grad"),
    Mistake("in place on a leaf", lambda: ones(2, requires_grad=True).add_(1), RuntimeError, "add_|leaf|no_grad"),
    Mistake("saved value overwritten", changed_before_backward, RuntimeError, "exp|modified by an inplace operation|test_mistakes.py|clone"),
    Mistake("numpy of a leaf", lambda: ones(2, requires_grad=True).numpy(), RuntimeError, "numpy|requires grad|detach().numpy()"),
    Mistake("deepcopy of a result", lambda: copy.deepcopy(ones(2, requires_grad=True) * 2), RuntimeError, "deepcopy|leaves|detach().clone()"),
    Mistake("nan in backward", nan_loss, RuntimeError, "sqrt|nan"),
    Mistake("gradient of what was not used", lambda: dynograd.autograd.grad(ones(1, requires_grad=True).sum(), ones(1, requires_grad=True)), RuntimeError, "grad|not have been used|allow_unused=True"),
    # --- values
    Mistake("if of many", lambda: bool(ones(2) > 0), RuntimeError, "bool|more than one value|any()|all()"),
    Mistake("item of many", lambda: ones(2, 2).item(), RuntimeError, "item|4 elements|(2, 2)|tolist()"),
    Mistake("len of a number", lambda: len(tensor(1.0)), TypeError, "len|0-d|numel()"),
    Mistake("index out of range", lambda: ones(3, 4)[3], IndexError, "index 3|dimension 0|size 3"),
    # --- modules and optimizers
    Mistake("no super().__init__()", without_init, AttributeError, "super().__init__()"),
    Mistake("no super().__init__(), called", call_without_init, AttributeError, "super().__init__()|Broken"),
    Mistake("no forward", no_forward, NotImplementedError, 'Empty|"forward"'),
    Mistake("too many arguments", inside(nn.Linear(2, 2), ones(1, 2), ones(1, 2)), TypeError, "forward|3", PATH),
    Mistake("state_dict", wrong_state, RuntimeError, "Linear|Missing key|bias|Unexpected key|offset|size mismatch for weight|[2, 4]|[2, 3]|strict=False"),
    Mistake("state_dict of a part", state_of_another_model, RuntimeError, "Model|Missing key|encoder.blocks.1.weight|Unexpected key|weight"),
    Mistake("parameter that is a tensor", lambda: nn.Linear(2, 2).register_parameter("scale", ones(1)), TypeError, "scale|Tensor|nn.Parameter(value)"),
    Mistake("layer in a list", lambda: nn.Sequential([nn.Linear(2, 2)]), TypeError, "list|Module|Sequential|*layers"),
    Mistake("optimizer without parameters", lambda: optim.SGD([], 0.1), ValueError, "SGD|empty parameter list"),
    Mistake("optimizer of a module", lambda: optim.Adam(nn.Linear(2, 2)), TypeError, "Adam|Linear|parameters()"),
    Mistake("optimizer of one tensor", lambda: optim.Adam(ones(2, requires_grad=True)), TypeError, "Adam|iterable|Tensor|[tensor]"),
    Mistake("optimizer of a result", lambda: optim.Adam([ones(2, requires_grad=True) * 2]), ValueError, "Adam|leaf"),
    Mistake("optimizer of numbers", lambda: optim.Adam([1.0, 2.0]), TypeError, "Adam|Tensor|float"),
    Mistake("learning rate", lambda: optim.SGD([ones(2, requires_grad=True)], -0.1), ValueError, "SGD|learning rate|-0.1|at least 0"),
    Mistake("one parameter twice", lambda: optim.SGD([{"params": [P]}, {"params": [P]}], 0.1), ValueError, "SGD|more than one parameter group|(2,)"),
    Mistake("optimizer's state of another", optimizer_state_of_another, ValueError, "load_state_dict|parameter group|group 0|1|2"),
    Mistake("schedule of a module", stepped_lr_on_nothing, TypeError, "StepLR|Linear|Optimizer|Pass the optimizer"),
    Mistake("a batch of different sizes", lambda: next(iter(dynograd.utils.data.DataLoader([ones(2), ones(3)], 2))), RuntimeError, "collate|(2,)|(3,)|pad"),
    Mistake("dropout", lambda: nn.Dropout(1.5), ValueError, "dropout|1.5|between 0 and 1"),
    Mistake("clip_grad_norm_ of a module", lambda: nn.utils.clip_grad_norm_(nn.Linear(2, 2), 1.0), TypeError, "clip_grad_norm_|Linear|parameters()"),
]  # fmt: skip
P = nn.Parameter(ones(2))


@pytest.mark.parametrize("mistake", [pytest.param(mistake, id=mistake.name) for mistake in MISTAKES])
def test_the_message_helps(mistake):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(mistake.kind) as caught:
            mistake.call()
    message = str(caught.value)
    missing = [word for word in mistake.words.split("|") if word not in message]
    assert not missing, f"{missing} not in: {message}"
    if mistake.note:
        notes = [note for note in caught.value.__notes__ if note.startswith("in module ")]
        assert len(notes) == 1, notes
        missing = [word for word in mistake.note.split("|") if word not in notes[0]]
        assert not missing, f"{missing} not in: {notes[0]}"


def test_there_are_enough():
    assert len(MISTAKES) >= 60
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)
