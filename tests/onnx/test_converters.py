"""Models that converters of other libraries write, beside those libraries."""

import io
import warnings

import numpy
import pytest

import dynograd
import dynograd.onnx

pytest.importorskip("onnx", reason="the extra onnx is not installed")


@pytest.mark.parametrize("estimator", ["linear_model.LogisticRegression", "ensemble.RandomForestClassifier", "ensemble.GradientBoostingRegressor", "linear_model.Ridge"])  # fmt: skip
def test_scikit_learn(estimator):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    import importlib

    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    family, name = estimator.split(".")
    kind = getattr(importlib.import_module(f"sklearn.{family}"), name)
    generator = numpy.random.default_rng(0)
    x = generator.normal(size=(60, 4)).astype(numpy.float32)
    y = (x @ [1, -2, 0.5, 0] > 0) + (x[:, 1] > 1) if "Class" in name or "Logistic" in name else x @ [1, -2, 0.5, 0]
    model = make_pipeline(StandardScaler(), kind()).fit(x, y)
    module = dynograd.onnx.load(skl2onnx.to_onnx(model, x[:1], options=None))
    result = module(dynograd.from_numpy(x))
    if isinstance(result, tuple):
        labels, chances = result
        assert labels.tolist() == model.predict(x).tolist()
        rows = numpy.array([list(row.values()) for row in chances])
        numpy.testing.assert_allclose(rows, model.predict_proba(x), atol=1e-5)
    else:
        numpy.testing.assert_allclose(result.detach().numpy().ravel(), model.predict(x).ravel(), rtol=1e-4, atol=1e-4)


def test_torch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    torch.manual_seed(0)
    nn = torch.nn
    layers = [
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64, 5),
    ]
    cases = [
        (nn.Sequential(*layers).eval(), torch.randn(2, 3, 8, 8)),
        (nn.LSTM(6, 7, bidirectional=True).eval(), torch.randn(4, 2, 6)),
    ]
    for model, x in cases:
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (x,), file, dynamo=False)
        result, expected = dynograd.onnx.load(file.getvalue())(dynograd.from_numpy(x.numpy())), model(x)
        if isinstance(result, tuple):
            result, expected = result[0], expected[0]
        numpy.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-5)
