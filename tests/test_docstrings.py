"""Docstrings of public functions and classes are complete; `LACKING` says by how much they are not, and may only fall. From the top folder:

python -m tests.test_docstrings                     how many lines are lacking, by module
python -m tests.test_docstrings nn.functional       what is lacking there; `Tensor` is one of the places
python -m tests.test_docstrings nn.functional --run the same, and its examples are run

A docstring needs a sentence that ends with a period; `Args:` with the name of each parameter (`out`, `axis` and `keepdims`, which ops share,
and `*args`, `**kwargs` aside); `Returns:` (or `Yields:`, `Shape:`) where something comes back and there are parameters; an example. Methods of classes need no
example, properties only the sentence. No signature shows a private parameter, or 'Any' in quotes. A function that stands in several places
counts in the first.
"""

import enum
import importlib
import inspect
import re
import sys
import types

import pytest

import dynograd
from tests import test_docs

LACKING = {
    "Tensor": 1,
}
SHOWING = {}
PLACES = """. Tensor linalg fft special signal.windows nn.functional nn nn.init nn.utils nn.utils.rnn nn.utils.parametrize nn.utils.parametrizations
    nn.utils.prune nn.attention nn.attention.bias nn.attention.flex_attention optim optim.lr_scheduler optim.swa_utils data utils.data ragged nested
    debug transforms autograd autograd.functional autograd.graph autograd.forward_ad autograd.profiler func distributions distributions.constraints
    distributions.transforms distributions.kl amp profiler saving sparse masked runs library testing random cuda memory overrides errors
    utils.checkpoint utils.tensorboard utils.flop_counter utils.benchmark futures hub onnx jit compiler export backends
    serialization gradcheck distributed accelerator cpu mps xpu mtia backends.cpu backends.cuda cuda.amp cuda.nvtx cuda.profiler distributions.utils
    distributions.constraint_registry utils utils._pytree utils.dlpack utils.hooks utils.weak utils.mobile_optimizer utils.cpp_extension fx array_api
    array_api.linalg array_api.fft array_api.special multiprocessing quasirandom package return_types distributed.algorithms.join
    distributed.tensor""".split()
SHARED = {"out", "axis", "keepdims", "self", "cls", "args", "kwargs"}
NOTHING = {"None", "NoReturn", "Iterator[None]", "Generator[None]", "<class 'NoneType'>"}
SECTION = re.compile(r"^(Args|Returns|Raises|Yields|Shape|Saves|Source|Attributes)\b[^:]*:", re.M)


def names_of(module):
    names = vars(module).get("__all__") or [name for name in dir(module) if not name.startswith("_")]
    return [name for name in names if not name.startswith("_")]


def public(place):
    """(name, value, whether an example is needed) of all that `place` shows, methods of classes among it."""
    if place == "Tensor":
        yield from members("Tensor", dynograd.Tensor, example=True)
        return
    module = dynograd if place == "." else importlib.import_module(f"dynograd.{place}")
    for name in names_of(module):
        value = getattr(module, name, None)
        if isinstance(value, type) and value.__module__.startswith("dynograd"):
            yield name, value, not issubclass(value, Exception)
            if value is not dynograd.Tensor:
                yield from members(name, value, example=False)
        elif isinstance(value, types.FunctionType) and (value.__module__ or "").startswith("dynograd"):
            yield name, value, True


def members(owner, kind, example):
    for name in [name for name in dir(kind) if not name.startswith("_")]:
        home = next((base for base in kind.__mro__ if name in vars(base)), object)
        if not home.__module__.startswith("dynograd") or (home is not kind and not home.__name__.startswith("_")):
            continue  # counted with the class that defines it
        value = vars(home)[name]
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
        if isinstance(value, (types.FunctionType, property)):
            yield f"{owner}.{name}", value, example and not isinstance(value, property)


def key_of(value):
    value = inspect.unwrap(getattr(value, "fget", None) or value)
    entry = getattr(value, "op", None)
    return ("op", entry.name) if entry is not None else getattr(value, "__code__", value)


def lacks(name, value, example):
    """What is lacking, a line each."""
    inherited = isinstance(value, type) and "__doc__" not in vars(value)
    text = inspect.cleandoc(value.__doc__ or "") if not inherited else ""
    if not text:
        return (
            [] if not isinstance(value, type) and inspect.getdoc(value) else ["no docstring"]
        )  # that of the method it overrides
    if text.startswith("Raises NotImplementedError"):  # all that it does
        return []
    lines = []
    summary = " ".join(text.split("\n\n")[0].split())
    if not re.search(r"[.:?!]\)?$", SECTION.split(summary)[0].strip()):
        lines.append("the first paragraph is no sentence with a period")
    if isinstance(value, property) or (isinstance(value, type) and issubclass(value, (Exception, enum.Enum))):
        return lines
    if example and ">>>" not in text:
        lines.append("no example")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return lines
    parameters = [parameter for parameter in signature.parameters.values() if parameter.name not in SHARED]
    if isinstance(value, types.FunctionType) and "." in name:
        parameters = parameters[1:] if next(iter(signature.parameters), "") in ("input", "tensor") else parameters
    entry = getattr(value, "op", None)
    aliases = set((entry.row["aliases"] or {}).values()) if entry is not None else set()
    expected = [
        parameter.name
        for parameter in parameters
        if not parameter.name.startswith("_") and parameter.name not in aliases
    ]
    if name.endswith("_"):  # the tensor that is changed, in its method `self`
        expected = [parameter for parameter in expected if parameter != "input"]
    if name.endswith(".forward"):  # the class says what comes in and out
        return lines
    explained = set(expected) if re.search(r"^Args: (those of|as) ", text, re.M) else args_of(text)
    missing = [parameter for parameter in expected if parameter not in explained]
    if missing:
        lines.append("Args: without " + ", ".join(missing))
    back = str(signature.return_annotation).strip("'")
    if (
        expected
        and not isinstance(value, type)
        and back not in NOTHING
        and not re.search(r"^(Returns|Yields|Shape):", text, re.M)
    ):
        lines.append("no Returns:")
    return lines


def shows(name, value, example):
    """What the signature shows and should not."""
    if isinstance(value, property):
        return []
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    faults = []
    private = [name for name in signature.parameters if name.startswith("_")]
    if private:
        faults.append("private in the signature: " + ", ".join(private))
    if "'Any'" in str(signature):
        faults.append(f"'Any' in the signature: {signature}")
    return faults


def args_of(text):
    """The names that stand before a colon below `Args:`."""
    names, inside, indent = set(), False, 0
    for line in text.splitlines():
        if re.match(r"Args\b.*:$", line):
            inside, indent = True, 0
        elif inside and line and not line.startswith(" "):
            inside = False
        elif inside and line.strip():
            indent = indent or len(line) - len(line.lstrip())
            if len(line) - len(line.lstrip()) == indent:
                head = re.sub(r"\([^)]*\)", " ", line).partition(":")[0]
                names.update(re.findall(r"\w+", head))
    return names


def everywhere(asked):
    """Place -> [(name, what is lacking)], without what an earlier place has; `asked` is `lacks` or `shows`."""
    seen, result = set(), {}
    for place in PLACES:
        result[place] = lines = []
        for name, value, example in public(place):
            key = key_of(value)
            if key not in seen:
                seen.add(key)
                lines += [(name, line) for line in asked(name, value, example)]
    return result


@pytest.fixture(scope="module", params=["LACKING", "SHOWING"])
def table(request):
    return request.param, globals()[request.param], everywhere(lacks if request.param == "LACKING" else shows)


def test_docstrings_are_complete(table):
    name, ceilings, lines = table
    over = {place: told for place, told in lines.items() if len(told) > ceilings.get(place, 0)}
    told = [f"{place}: {owner}: {line}" for place in over for owner, line in over[place]]
    assert not told, f"more than {name} allows:\n" + "\n".join(told)


def test_what_is_lacking_is_seen():
    def scale(input: "Any", factor: float = 2.0, _stacklevel: int = 3) -> "Any":  # noqa: F821
        """Scales

        Args:
            input: a tensor.
        """

    told = "\n".join(lacks("scale", scale, True) + shows("scale", scale, True))
    for words in (
        "no sentence",
        "no example",
        "private in the signature: _stacklevel",
        "'Any'",
        "without factor",
        "no Returns",
    ):
        assert words in told
    assert lacks("f", lambda: 0, False) == ["no docstring"]

    def good(input, dim, *sizes):
        """Sums over `dim`.

        Args:
            input (B, T): a tensor.
            dim, sizes: ints: of them
                none: matters.
        Returns:
            (B,).

        >>> 1
        1
        """

    assert lacks("good", good, True) == []


def run(place):
    """What goes wrong in the examples of a place."""
    names = test_docs.public_names() | test_docs.aliases() | {"__name__": "__main__"}
    failures = []
    for name, value, _ in public(place):
        text = inspect.cleandoc(value.__doc__ or "")
        if ">>>" in text:
            module = sys.modules.get(getattr(value, "__module__", ""), dynograd)
            failures += test_docs.run_examples(text, {**vars(module), **names}, name, name, 1)
    return failures


if __name__ == "__main__":
    chosen = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
    for title, asked in (("LACKING", lacks), ("SHOWING", shows)):
        lines = everywhere(asked)
        figures = {place: len(told) for place, told in lines.items() if told}
        print(f"{title} = {figures}" if not chosen else "")
        for place in chosen:
            print("\n".join(f"{name}: {line}" for name, line in lines[place]))
    for place in chosen if "--run" in sys.argv else ():
        print("\n".join(run(place)) or "its examples run")
