"""Models that converters of other libraries write: the module computes what onnxruntime does, or the library itself.

Rows run where the library and its converter are installed: scikit-learn and skl2onnx, PyTorch and onnxscript, Keras beside PyTorch.
"""

import importlib
import io
import warnings

import numpy
import pytest

import dynograd
import dynograd.onnx

pytest.importorskip("onnx", reason="needs the extra onnx")


def _array(value):
    if isinstance(value, list):  # of dicts, by labels
        return numpy.array([list(row.values()) for row in value])
    return value if isinstance(value, numpy.ndarray) else value.detach().numpy()


def _agree(results, expected):
    results = results if isinstance(results, tuple) else (results,)
    assert len(results) == len(expected)
    for result, value in zip(map(_array, results), map(_array, expected)):
        assert result.shape == value.shape
        if result.dtype == object:
            assert (result == value).all()
        else:
            numpy.testing.assert_allclose(result, value, rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------- scikit-learn

CLASSES = """linear_model.LogisticRegression linear_model.SGDClassifier linear_model.Perceptron tree.DecisionTreeClassifier
    ensemble.RandomForestClassifier ensemble.GradientBoostingClassifier ensemble.AdaBoostClassifier ensemble.BaggingClassifier
    neural_network.MLPClassifier naive_bayes.GaussianNB neighbors.KNeighborsClassifier svm.SVC svm.LinearSVC svm.NuSVC
    discriminant_analysis.LinearDiscriminantAnalysis feature_selection.SelectKBest""".split()
NUMBERS = """linear_model.Ridge linear_model.Lasso tree.DecisionTreeRegressor ensemble.RandomForestRegressor
    ensemble.GradientBoostingRegressor neural_network.MLPRegressor neighbors.KNeighborsRegressor svm.SVR svm.OneClassSVM
    gaussian_process.GaussianProcessRegressor mixture.GaussianMixture decomposition.PCA decomposition.TruncatedSVD
    preprocessing.StandardScaler preprocessing.MinMaxScaler preprocessing.RobustScaler preprocessing.Normalizer
    preprocessing.Binarizer preprocessing.PolynomialFeatures preprocessing.PowerTransformer""".split()
OPTIONS = {"svm.SVC": {"probability": True}, "svm.NuSVC": {"kernel": "poly"}, "svm.SVR": {"kernel": "sigmoid"}}


@pytest.mark.parametrize("words", [False, True], ids=["numbers", "words"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("estimator", CLASSES)
def test_classifiers_of_scikit_learn(estimator, classes, words):
    x = numpy.random.default_rng(0).normal(size=(60, 4)).astype(numpy.float32)
    y = x[:, :classes].argmax(1)
    _check_estimator(estimator, x, numpy.array(["a", "b", "c"])[y] if words else y)


@pytest.mark.parametrize("estimator", NUMBERS)
def test_estimators_of_scikit_learn(estimator):
    x = numpy.random.default_rng(0).normal(size=(60, 4)).astype(numpy.float32)
    _check_estimator(estimator, x, x @ [1, -2, 0.5, 0])


def _check_estimator(estimator, x, y):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    family, name = estimator.split(".")
    kind = getattr(importlib.import_module(f"sklearn.{family}"), name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = skl2onnx.to_onnx(kind(**OPTIONS.get(estimator, {})).fit(x, y), x[:1])
    session = runtime.InferenceSession(model.SerializeToString())
    for rows in (x, x[:1]):
        _agree(dynograd.onnx.load(model)(dynograd.from_numpy(rows)), session.run(None, {"X": rows}))


def test_a_pipeline_of_scikit_learn_with_words():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    words = numpy.array(["red", "green", "blue"] * 20, object)[:, None]
    numbers = numpy.arange(60, dtype=numpy.float32)[:, None] % 7
    numbers[3] = numpy.nan
    table = numpy.concatenate([words, numbers.astype(object)], 1)
    columns = ColumnTransformer([("word", OneHotEncoder(), [0]), ("number", SimpleImputer(), [1])])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline = make_pipeline(columns, LogisticRegression()).fit(table, words[:, 0] == "red")
        types = [("word", StringTensorType([None, 1])), ("number", FloatTensorType([None, 1]))]
        model = skl2onnx.convert_sklearn(pipeline, initial_types=types)
    expected = runtime.InferenceSession(model.SerializeToString()).run(None, {"word": words, "number": numbers})
    _agree(dynograd.onnx.load(model)(words, dynograd.from_numpy(numbers)), expected)


# ---------------------------------------------------------------- PyTorch


def _convolutional(nn):
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5)
    )


def _encoder(nn):
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)


def _upscaler(nn):
    return nn.Sequential(
        nn.ConvTranspose2d(3, 4, 2, stride=2), nn.GroupNorm(2, 4), nn.GELU(), nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.AdaptiveAvgPool2d(4), nn.PixelShuffle(2),
    )  # fmt: skip


TORCH = {  # name -> (module, shape of its input)
    "convolutional": (_convolutional, (2, 3, 8, 8)),
    "transformer": (_encoder, (2, 5, 8)),
    "upscaler": (_upscaler, (1, 3, 4, 4)),
    "lstm": (lambda nn: nn.LSTM(6, 7, num_layers=2, bidirectional=True), (4, 2, 6)),
    "gru": (lambda nn: nn.GRU(6, 7), (4, 2, 6)),
    "layers": (lambda nn: nn.Sequential(nn.LayerNorm(6), nn.Linear(6, 6), nn.SiLU(), nn.Softmax(-1), nn.Unflatten(1, (2, 3))), (4, 6)),
}  # fmt: skip


def _flat(value):
    return [part for item in value for part in _flat(item)] if isinstance(value, tuple) else [value]


@pytest.mark.slow
@pytest.mark.parametrize("dynamo", [False, True], ids=["traced", "dynamo"])
@pytest.mark.parametrize("name", TORCH)
def test_torch(name, dynamo):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    if dynamo:
        pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    torch.manual_seed(0)
    write, shape = TORCH[name]
    model, x, file = write(torch.nn).eval(), torch.randn(shape), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), file, dynamo=dynamo, verbose=False)
    module = dynograd.onnx.load(file.getvalue())
    _agree(module(dynograd.from_numpy(x.numpy())), _flat(model(x)))
    if name not in ("lstm", "gru"):  # whose weights ONNX has in another order
        own, theirs = dict(module.named_parameters()), dict(model.named_parameters())
        assert any(own[key].shape == tuple(theirs[key].shape) for key in own.keys() & theirs.keys())


# ---------------------------------------------------------------- Keras


def _dense(keras):
    return [keras.layers.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")]


def _images(keras):
    layers = keras.layers
    return [
        layers.Input((8, 8, 3)), layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(),
        layers.MaxPooling2D(), layers.GlobalAveragePooling2D(), layers.Dense(2),
    ]  # fmt: skip


def _sequences(keras):
    return [keras.layers.Input((5, 4)), keras.layers.LayerNormalization(), keras.layers.LSTM(6), keras.layers.Dense(2)]


def _windows(keras):
    layers = keras.layers
    return [
        layers.Input((9, 3)), layers.Conv1D(4, 3, padding="causal", dilation_rate=2), layers.LeakyReLU(),
        layers.Conv1DTranspose(2, 3, strides=2),
    ]  # fmt: skip


def _larger(keras):
    layers = keras.layers
    return [
        layers.Input((4, 4, 3)), layers.Conv2DTranspose(4, 3, strides=2, padding="same"), layers.UpSampling2D(2),
        layers.UpSampling2D(2, interpolation="bilinear"), layers.Cropping2D(1), layers.Resizing(5, 7),
    ]  # fmt: skip


def _gates(keras):
    layers = keras.layers
    return [layers.Input((5, 4)), layers.Bidirectional(layers.GRU(6, return_sequences=True)), layers.SimpleRNN(3)]


def _norms(keras):
    layers = keras.layers
    return [
        layers.Input((6, 6, 4)),
        layers.GroupNormalization(2),
        layers.UnitNormalization(),
        layers.PReLU(),
        layers.Softmax(),
    ]


def _attending(keras):
    rows = keras.layers.Input((5, 8))
    mixed = keras.layers.MultiHeadAttention(2, 4)(rows, rows, use_causal_mask=True)
    return keras.Model(rows, keras.layers.LayerNormalization()(rows + mixed))


KERAS = [
    (_dense, (2, 6)), (_images, (2, 8, 8, 3)), (_sequences, (2, 5, 4)), (_windows, (2, 9, 3)), (_larger, (2, 4, 4, 3)),
    (_gates, (2, 5, 4)), (_norms, (2, 6, 6, 4)), (_attending, (2, 5, 8)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("write", "shape"), KERAS)
def test_keras(write, shape, tmp_path, monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="Keras is not installed")
    keras.utils.set_random_seed(0)
    x = numpy.random.default_rng(0).normal(size=shape).astype(numpy.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        layers = write(keras)
        model = keras.Sequential(layers) if isinstance(layers, list) else layers
        expected = model.predict(x, verbose=0)
        signature = [keras.InputSpec(shape=shape, dtype="float32")]
        model.export(tmp_path / "model.onnx", format="onnx", verbose=False, input_signature=signature)
    module = dynograd.onnx.load(tmp_path / "model.onnx")
    result = module(dynograd.from_numpy(x))
    _agree(result, [expected])
    parameters = list(module.parameters())
    if parameters:
        result.square().sum().backward()
        assert all([parameter.grad is not None for parameter in parameters])
