"""Short-time Fourier transforms against a loop over windows."""

import numpy
import pytest

import dynograd
from tests.ops.harness import Row, generate

DOUBLES = ("float32", "float64")
COARSE = {"float32": (1e-4, 1e-5), "float64": (1e-9, 1e-11)}
stft, istft, zeros = dynograd.stft, dynograd.istft, dynograd.zeros
SIGNAL = numpy.random.default_rng(0).normal(size=(2, 12))


def np_stft(x, window, n_fft, hop, center=True, normalized=False, onesided=True):
    before = (n_fft - len(window)) // 2
    wide = numpy.zeros(n_fft)
    wide[before : before + len(window)] = window
    if center:
        x = numpy.pad(x, ((0, 0), (n_fft // 2, n_fft // 2)), mode="reflect")
    frames = [x[:, start : start + n_fft] * wide for start in range(0, x.shape[1] - n_fft + 1, hop)]
    created = numpy.stack([(numpy.fft.rfft if onesided else numpy.fft.fft)(frame) for frame in frames], -1)
    created = created / numpy.sqrt(n_fft) if normalized else created
    return numpy.stack([created.real, created.imag], -1)


def our_stft(x, window, n_fft, hop, **options):
    options = {"return_complex": False} | options
    return stft(x, n_fft, hop, window.shape[0], window, **options)


def there_and_back(x, window, n_fft, hop, **options):
    return istft(
        stft(x, n_fft, hop, window.shape[0], window, return_complex=True, **options),
        n_fft,
        hop,
        window.shape[0],
        window,
        **options,
    )


def signal(*rest):
    return lambda rng: [rng.normal(size=(2, 12)), rng.uniform(0.5, 1, rest[0]), *rest[1:]]


ROWS = [
    Row("stft", np_stft, args=signal(4, 4, 2), dtypes=DOUBLES, function=our_stft, tolerance=COARSE),
    Row("stft", np_stft, args=signal(3, 6, 2), kwargs={"normalized": True}, dtypes=DOUBLES, function=our_stft, tolerance=COARSE, id="narrow"),
    Row("stft", np_stft, args=signal(5, 5, 3), kwargs={"center": False, "onesided": False}, dtypes=DOUBLES, function=our_stft, tolerance=COARSE, id="whole"),
    Row("istft", lambda x, *rest: x, args=signal(4, 4, 2), dtypes=DOUBLES, function=there_and_back, tolerance=COARSE, id="inverse"),
    Row("istft", lambda x, *rest, **more: x, args=signal(4, 6, 1), kwargs={"onesided": False, "normalized": True}, dtypes=DOUBLES, function=there_and_back, tolerance=COARSE, id="whole"),
]  # fmt: skip
test_rows = generate(ROWS)


def test_complex_signals_come_back():
    x = dynograd.tensor(SIGNAL + 1j * SIGNAL[:, ::-1].copy())
    window = dynograd.hann_window(6, dtype=dynograd.float64)
    result = x.stft(6, 2, window=window)
    assert result.shape == (2, 6, 7)
    numpy.testing.assert_allclose(result.istft(6, 2, window=window, return_complex=True).numpy(), x.numpy(), atol=1e-12)


def test_default_arguments_and_lengths():
    x = dynograd.tensor(SIGNAL[0])
    result = stft(x, 4, return_complex=True)
    assert result.shape == (3, 13)
    assert istft(result, 4).shape == (12,)
    numpy.testing.assert_allclose(istft(result, 4, length=10).numpy(), SIGNAL[0, :10], atol=1e-12)
    numpy.testing.assert_allclose(istft(result, 4, length=20).numpy()[:12], SIGNAL[0], atol=1e-12)
    assert stft(x, 4, win_length=2, return_complex=True).shape == (3, 13)
    assert stft(x, 4, pad_mode="constant", return_complex=True).shape == (3, 13)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: stft(zeros(8), 4), RuntimeError, "stft requires the return_complex parameter be given for real inputs"),
        (lambda: stft(zeros(8).long(), 4, return_complex=True), TypeError, "stft: expected a tensor of floating point or complex"),
        (lambda: stft(zeros(2, 2, 8), 4, return_complex=True), ValueError, "stft: expected a 1D or 2D tensor"),
        (lambda: stft(zeros(8), 4, hop_length=0, return_complex=True), ValueError, "expected hop_length > 0"),
        (lambda: stft(zeros(8), 4, window=zeros(3), return_complex=True), ValueError, "expected a 1D window tensor of size equal to win_length=4"),
        (lambda: stft(zeros(8), 4, win_length=5, return_complex=True), ValueError, "expected 0 < win_length <= n_fft"),
        (lambda: stft(zeros(8), 9, center=False, return_complex=True), ValueError, "expected 0 < n_fft <= 8"),
        (lambda: stft(zeros(8), 16, return_complex=True), ValueError, r"padding \(8, 8\)"),
        (lambda: stft(zeros(8) + 0j, 4, onesided=True), RuntimeError, "Cannot have onesided output"),
        (lambda: istft(zeros(3, 4), 4), RuntimeError, "istft requires a complex-valued input tensor"),
        (lambda: istft(zeros(3) + 0j, 4), ValueError, "2 or 3 dimensions"),
        (lambda: istft(zeros(5, 4) + 0j, 4), ValueError, "n_fft // 2 \\+ 1 = 3"),
        (lambda: istft(zeros(3, 4) + 0j, 4, hop_length=5), ValueError, "expected 0 < hop_length <= win_length"),
        (lambda: istft(zeros(3, 4) + 0j, 4, return_complex=True), RuntimeError, "cannot have onesided input if the output is complex"),
        (lambda: istft(zeros(3, 4) + 0j, 4, window=zeros(4)), RuntimeError, "window overlap add min"),
    ],
)  # fmt: skip
def test_errors(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
