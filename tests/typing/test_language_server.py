"""What an editor shows: pyright's language server, the engine of VS Code, asked about one program as a user writes it."""

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

import dynograd
from tests.typing.language_server import LanguageServer

PROGRAM = Path(__file__).parent / "edited_program.py"
PACKAGE = Path(dynograd.__file__).parent

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def editor(tmp_path_factory):
    """A server that sees dynograd as an installed package, where names that a module only imports are not its own."""
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    names = ("basedpyright-langserver", "pyright-langserver")
    command = next(filter(None, [shutil.which(name, path=beside) for name in names]), None)
    if command is None:
        pytest.skip("pyright is not installed; the extra `types` has it")
    folder = tmp_path_factory.mktemp("editor")
    packages = folder / "installed" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "dynograd").symlink_to(PACKAGE, target_is_directory=True)
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    settings = {"venvPath": ".", "venv": "installed", "typeCheckingMode": "standard"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    server = LanguageServer([command, "--stdio"], Path(shutil.copy(PROGRAM, folder)), settings={})
    yield server
    server.close()


def test_nothing_is_underlined(editor):
    assert editor.problems() == []


# A place in the program (`|` is the cursor), names listed there, names not listed.
COMPLETIONS = [
    ("chances.|sum()", "softmax sum shape backward item grad relu_ T requires_grad detach numpy to", "Linear sofmax"),
    ("torch.|relu(hidden)", "relu nn optim batched ragged_tensor autocast Tensor no_grad linalg float32 Run autobatch save",
     "functools importlib sys warnings TYPE_CHECKING Any uncollected absolute_power _ops _registry"),
    ("from dynograd import |nn, optim", "nn data Tensor cat ragged_tensor linalg", "functools sys uncollected"),
    ("nn.|Embedding(", "Linear LSTM Module Parameter Sequential ReLU functional init utils TreeLSTM", "lists relu Any"),
    ("F.|cross_entropy(", "cross_entropy relu softmax scaled_dot_product_attention pad", "Any Sequence Tensor Linear"),
    ("optim.|AdamW(", "AdamW SGD Adam lr_scheduler Optimizer", "lists Any Linear"),
    ("lr_scheduler.|StepLR(", "StepLR OneCycleLR LambdaLR ReduceLROnPlateau", "lists AdamW"),
    ("torch.linalg.|svd(", "svd norm eigh solve LinAlgError", "Any Sequence relu"),
    ("self.|output(torch.relu", "embedding reader dropout output width forward parameters train training", "hidden words"),
    ("classifier.|reader.hidden", "embedding reader output state_dict eval to", "hidden softmax"),
    ("classifier.reader.|hidden_size", "hidden_size num_layers bidirectional flatten_parameters", "embedding out_features"),
    ("convolution.|weight", "weight bias kernel_size stride", "in_features hidden_size"),
    ("best.|values", "values indices", "softmax"),
    ("optimizer.|step()", "step zero_grad param_groups state_dict", "backward"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "listed", "absent"), COMPLETIONS, ids=[row[0] for row in COMPLETIONS])
def test_completion(editor, place, listed, absent):
    names = editor.completions(place)
    assert not [name for name in listed.split() if name not in names]
    assert not [name for name in absent.split() if name in names]


@pytest.mark.parametrize(
    ("place", "value"),
    [("chances.|sum()", dynograd.ones(1)), ("ragged.|sum()", dynograd.ragged_tensor([[1.0]]))],
    ids=["Tensor", "RaggedTensor"],
)
def test_completion_lists_what_dir_lists(editor, place, value):
    names = {name for name in editor.completions(place) if not name.startswith("_")}
    assert names == {name for name in dir(value) if not name.startswith("_")}


# What the text of a hover begins with, without its line breaks, and what it has behind that.
HOVERS = [
    ("torch.re|lu(hidden)", "(function) def relu( input: Tensor, inplace: bool = False ) -> Tensor", "`input` where it is above 0"),
    ("torch.soft|max(", "(function) def softmax( input: Tensor, dim: ", ") -> Tensor `exp(input)`, scaled to sum to 1"),
    ("torch.ca|t(", "(function) def cat( tensors: Sequence[Tensor], dim: ", "The tensors one after the other along `dim`"),
    ("F.cross_|entropy(", "(function) def cross_entropy( input: Tensor, target: Tensor, weight: Tensor | None", ") -> Tensor "),
    ("chances.s|um()", "(method) def sum( dim: ", ") -> Tensor "),
    ("loss.back|ward()", "(method) def backward( gradient: ", ") -> None"),
    ("loss.it|em()", "(method) def item() -> (bool | Any)", "one-element tensor as a Python number"),
    ("torch.bat|ched(", "(function) def batched( function: (...) -> Any, *,", ""),
    ("torch.ragged|_tensor(", "(function) def ragged_tensor( rows: ", ") -> RaggedTensor"),
    ("torch.lo|ad(", "(function) def load( f: Any, map_location: Any = None", "Reads what `save` wrote"),
    ("clip_grad|_norm_(", "(function) def clip_grad_norm_( parameters: Tensor | Iterable[Tensor], max_norm: float", ") -> Tensor"),
    ("nn.Lin|ear(width", "class Linear( in_features: int, out_features: int, bias: bool = True", ""),
    ("nn.LS|TM(", "class LSTM( input_size: int, hidden_size: int, num_layers: int = 1", ""),
    ("nn.Conv|2d(", "class Conv2d( in_channels: int, out_channels: int, kernel_size: ", ""),
    ("optim.Ad|amW(", "class AdamW( params: ", "weight_decay: float = 0.01"),
    ("class Classifier(nn.Mod|ule)", "class Module(", "Base of all models"),
    ("torch.auto|cast(", "class autocast( device_type: str", ""),
    ("torch.no_g|rad()", "class no_grad(", "Ops inside do not record the tape"),
    ("log|its = model(words)", "(variable) logits: Tensor", ""),
    ("los|s = F.", "(variable) loss: Tensor", ""),
    ("num|ber = loss.item()", "(variable) number: bool | Any", ""),
    ("ro|ws = logits", "(variable) rows: int", ""),
    ("batch_|sizes = logits", "(variable) batch_sizes: Size", ""),
    ("stat|es, (last", "(variable) states: Tensor", ""),
    ("(last, ce|ll)", "(variable) cell: Tensor", ""),
    ("best.val|ues", "(variable) values: Tensor", ""),
    ("be|st = chances", "(variable) best: max", ""),
    ("for bat|ch, target", "(variable) batch: Tensor", ""),
    ("DataLoad|er(Tensor", "class DataLoader( dataset: TensorDataset, batch_size: int = 1", "Iterating over it gives"),
    ("load_state|_dict(", "(method) def load_state_dict( state_dict: Any, strict: bool = True, assign: bool = False ) -> _IncompatibleKeys", ""),
    ("state|_dict(), ", "(method) def state_dict(", ") -> dict[str, Any]"),
    ("po|wer = left", "(variable) power: Tensor", ""),
    ("self.out|put(torch", "(variable) output: Linear", ""),
    ("weight.sha|pe", "(property) shape: Size", ""),
    ("mean(dim=0).dev|ice", "(property) device: device", ""),
    ("rag|ged = torch", "(variable) ragged: RaggedTensor", ""),
    ("import dyno|grad as torch", "(module) dynograd", "define-by-run deep learning"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "start", "rest"), HOVERS, ids=[row[0] for row in HOVERS])
def test_hover(editor, place, start, rest):
    text = " ".join(editor.hover(place).split())
    assert text.startswith(start)
    assert rest in text
    if start.startswith("(variable)") and start.endswith("Tensor"):
        assert text == start  # not the docstring of `__call__`, which the server shows of what can be called
    assert "Unknown" not in text


@pytest.mark.parametrize(
    "place",
    ["torch.re|lu(hidden)", "torch.soft|max(", "F.cross_|entropy(", "chances.s|um()", "loss.back|ward()", "torch.bat|ched(",
     "torch.lo|ad(", "nn.Lin|ear(width", "nn.LS|TM(", "nn.Conv|2d(", "optim.Ad|amW(", "optimizer.st|ep()", "DataLoad|er(Tensor",
     "nn.Drop|out(0.1)", "classifier.load_state|_dict("],
)  # fmt: skip
def test_hover_shows_the_first_sentence(editor, place):
    """The docstring of the object itself, not of a base class or of a stub's own making."""
    before, after = place.split("|")
    names = {"torch": dynograd, "F": dynograd.nn.functional, "nn": dynograd.nn, "optim": dynograd.optim}
    names |= dict.fromkeys(("chances", "loss"), dynograd.Tensor) | {"classifier": dynograd.nn.Module}
    names |= {"optimizer": dynograd.optim.AdamW}
    owner, _, name = (before + after.partition("(")[0]).rpartition(".")
    target = getattr(names[owner], name) if owner else getattr(dynograd.data, name)
    sentence = target.__doc__.strip().split("\n\n")[0].split("\n")[0]
    assert sentence in editor.hover(place)


# Parts of the signature an editor shows behind the parenthesis.
SIGNATURES = [
    ("F.cross_entropy(|", "input: Tensor|target: Tensor|weight: Tensor | None = None|ignore_index: int = -100|reduction: str = 'mean'"),
    ("torch.softmax(|", "input: Tensor|dim: |dtype: |-> Tensor"),
    ("nn.Conv2d(|", "in_channels: int|out_channels: int|kernel_size: |stride: |padding: |groups: int = 1|bias: bool = True|-> Conv2d"),
    ("nn.LSTM(|", "input_size: int|hidden_size: int|num_layers: int = 1|batch_first: bool = False|bidirectional: bool = False|-> LSTM"),
    ("nn.Dropout(|", "p: float = 0.5|inplace: bool = False|-> Dropout"),
    ("optim.AdamW(|", "params: |lr: float | Tensor = 0.001|eps: float = 1e-8|weight_decay: float = 0.01|amsgrad: bool = False|-> AdamW"),
    ("StepLR(|", "optimizer: Optimizer|step_size: int|gamma: float = 0.1|last_epoch: int = -1|-> StepLR"),
    ("DataLoader(|", "dataset: |batch_size: int | None = 1|shuffle: bool | None = None|num_workers: int = 0|drop_last: bool = False|-> DataLoader"),
    ("torch.tensor(|", "data: Any|dtype: |device: |requires_grad: bool = False|-> Tensor"),
    ("torch.autocast(|", "device_type: str|dtype: |enabled: bool = True|-> autocast"),
    ("torch.ragged_tensor(|", "rows: |requires_grad: bool = False|-> RaggedTensor"),
    ("clip_grad_norm_(|", "max_norm: float|norm_type: float = 2|error_if_nonfinite: bool = False|-> Tensor"),
    ("loss.backward(|", "retain_graph: bool | None = None|create_graph: bool = False|-> None"),
    ("Classifier(|words=", "words: int|width: int|classes: int|-> Classifier"),
    ("= model(|batch)", "words: Tensor|-> Tensor"),
]  # fmt: skip


@pytest.mark.parametrize(("place", "parts"), SIGNATURES, ids=[row[0] for row in SIGNATURES])
def test_signature_help(editor, place, parts):
    parts = parts.replace(" | ", " ¦ ").split("|")
    assert any(not [part for part in parts if part.replace("¦", "|") not in form] for form in editor.signatures(place))


# File and line that open on "go to definition": sources of classes and plain functions, stubs of ops.
DEFINITIONS = [
    ("nn.Lin|ear(width", "nn/layers/linear.py", "class Linear("),
    ("nn.LS|TM(", "nn/layers/rnn.py", "class LSTM("),
    ("nn.Conv|2d(", "nn/layers/conv.py", "class Conv2d("),
    ("optim.Ad|amW(", "optim/adamw.py", "class AdamW("),
    ("DataLoad|er(Tensor", "data/loader.py", "class DataLoader"),
    ("torch.bat|ched(", "transforms/autobatch/tasks.py", "def batched("),
    ("torch.ragged|_tensor(", "ragged/making.py", "def ragged_tensor("),
    ("torch.lo|ad(", "saving/serialization.py", "def load("),
    ("torch.sa|ve(", "saving/serialization.py", "def save("),
    ("torch.auto|cast(", "amp/autocasting.py", "class autocast"),
    ("torch.no_g|rad()", "autograd/modes.py", "class no_grad("),
    ("loss.back|ward()", "tensor/tensor.py", "def backward("),
    ("clip_grad|_norm_(", "nn/utils/clip_grad.py", "def clip_grad_norm_("),
    ("torch.re|lu(hidden)", "tensor/public_functions.pyi", "def relu("),
    ("torch.soft|max(", "tensor/public_functions.pyi", "def softmax("),
    ("chances.s|um()", "tensor/installed_methods.pyi", "def sum("),
    ("F.cross_|entropy(", "nn/functional.pyi", "def cross_entropy("),
    ("linalg.s|vd(", "linalg.pyi", "def svd("),
    ("classifier.read|er.hidden", "edited_program.py", "self.reader = nn.LSTM("),
]  # fmt: skip


@pytest.mark.parametrize(("place", "file", "line"), DEFINITIONS, ids=[row[0] for row in DEFINITIONS])
def test_go_to_definition(editor, place, file, line):
    path, text = editor.definitions(place)[0]
    assert path == (editor.program if file == PROGRAM.name else (PACKAGE / file).resolve())
    assert text.startswith(line)
