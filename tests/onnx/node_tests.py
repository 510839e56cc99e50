"""ONNX's own node tests, run on what `dynograd.onnx.load` makes of their models; `python -m tests.onnx.node_tests` writes the list of failures."""

import re
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy

import dynograd
from dynograd.onnx.reading.values import dtype_of, value_of

# Words of the name of a case whose values differ, or of the error -> the line of the list.
REASONS = {
    "bernoulli|training_dropout": "draws random numbers, and ONNX does not say how",
    "attention_4d_causal_fp16": "two of 192 numbers differ by 2 units in the last place of float16; dynograd's are nearer to those of float64",
    r"tensors of type (\w+) have no dynograd dtype": r"dynograd has no dtype for \1",
    r"\(ImageDecoder\) is an operator": "dynograd does not decode pictures",
}
LEFT_OUT = Path(__file__).with_name("left_out.txt")


def cases():
    """The test cases for each operator."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_model_tests(kind="node")


def _inward(value):
    if isinstance(value, list):
        return [_inward(item) for item in value]
    if hasattr(value, "data_type"):  # a TensorProto, of a dtype that NumPy has not
        from onnx import numpy_helper

        dtype_of(value.data_type)
        value = numpy_helper.to_array(value)
    return None if value is None else value_of(numpy.asarray(value))


def _compare(actual, expected, case):
    if isinstance(expected, list):
        assert isinstance(actual, list) and len(actual) == len(expected), "another length"
        for pair in zip(actual, expected):
            _compare(*pair, case)
        return
    if expected is None:
        assert actual is None, "not None"
        return
    if hasattr(expected, "data_type"):
        from onnx import numpy_helper

        expected = numpy_helper.to_array(expected)
    expected = numpy.asarray(expected)
    if not isinstance(actual, numpy.ndarray):
        actual = actual.detach().numpy()
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    if expected.dtype.kind in "OSU":
        assert (actual == expected.astype(object)).all(), "other strings"
        return
    assert actual.dtype == expected.dtype, f"dtype {actual.dtype}, expected {expected.dtype}"
    rtol = case.rtol
    if expected.dtype.name == "bfloat16":
        rtol = max(rtol, 2**-6)  # as ONNX's own runner does
    if expected.dtype.kind not in "biuc":
        actual, expected = actual.astype(numpy.float64), expected.astype(numpy.float64)
    numpy.testing.assert_allclose(actual, expected, rtol=rtol, atol=max(case.atol, 1e-6))


def run(case):
    """Runs a case: raises what is wrong."""
    model = case.model
    if model is None:
        import onnx

        model = onnx.load(Path(case.model_dir) / "model.onnx")
    module = dynograd.onnx.load(model)
    assert case.data_sets, "no data"
    for inputs, outputs in case.data_sets:
        with dynograd.no_grad():
            results = module(*[_inward(value) for value in inputs])
        results = results if isinstance(results, tuple) else (results,)
        assert len(results) == len(outputs), "another number of outputs"
        for result, expected in zip(results, outputs):
            _compare(result, expected, case)


def reason(case):
    """None where the case passes, else a line that says why not."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(case)
    except Exception as error:
        for words, text in REASONS.items():
            if re.search(words, case.name if isinstance(error, AssertionError) else str(error)):
                return re.search(words, str(error)).expand(text) if "\\" in text else text
        return f"{type(error).__name__}: {' '.join(str(error).split())[:150]}"
    return None


def failures():
    """{name: reason} of the cases that fail, and the number of those that pass."""
    reasons = {case.name: reason(case) for case in cases()}
    failing = {name: text for name, text in sorted(reasons.items()) if text}
    return failing, len(reasons) - len(failing)


def main():
    failing, passing = failures()
    LEFT_OUT.write_text("".join(f"{name} | {text}\n" for name, text in failing.items()), encoding="utf-8")
    for text, count in Counter(failing.values()).most_common(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        print(count, text)
    print(f"{passing} pass, {len(failing)} fail")


if __name__ == "__main__":
    main()
