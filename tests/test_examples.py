"""Each example runs, on few steps; what it saves is what it has trained; the same seed gives the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dynograd as torch
from examples import char_lm, mnist, sentiment

EXAMPLES = Path(sentiment.__file__).parent


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(what a short sentiment run returns, its checkpoint)."""
    checkpoint = tmp_path_factory.mktemp("sentiment") / "new" / "sentiment.safetensors"
    return short_run(checkpoint, workers=2), checkpoint


def short_run(checkpoint, **options):
    return sentiment.main(epochs=2, steps=15, sentences=160, batch_size=16, checkpoint=checkpoint, **options)


def test_sentiment_splits_are_fixed_and_disjoint():
    splits = sentiment.read_splits()
    assert {name: len(found) for name, found in splits.items()} == {"train": 8574, "valid": 995, "test": 1093}
    train, valid, test = ({" ".join(words) for words, _ in splits[name]} for name in ("train", "valid", "test"))
    assert not (train & valid or train & test or valid & test)
    assert 0.45 < sum(label for _, label in splits["test"]) / 1093 < 0.55


def test_sentiment_keeps_the_best_epoch(trained):
    result, checkpoint = trained
    assert 0 <= result["test_accuracy"] <= 1 and len(result["history"]) == 2
    model, vocabulary = sentiment.restore(checkpoint)
    assert sentiment.digest_of(model) == result["digest"]
    assert torch.load(checkpoint)["best"]["epoch"] == result["best_epoch"]
    assert len(vocabulary) == model.words.num_embeddings


def test_sentiment_is_the_same_bit_for_bit(trained, tmp_path):
    result, _ = trained
    again = short_run(tmp_path / "again.safetensors", workers=0)
    other = short_run(tmp_path / "other.safetensors", workers=0, seed=1)
    assert again == result
    assert other["digest"] != result["digest"]


def test_sentiment_predicts_from_the_command_line(trained):
    _, checkpoint = trained
    text = "a gorgeous, witty film"
    command = [sys.executable, EXAMPLES / "sentiment.py", "predict", text, "--checkpoint", checkpoint]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    probability = sentiment.predict(text, checkpoint)
    assert done.stdout == f"{probability:.1%} positive: {text}\n"
    assert 0 < probability < 1


def test_sentiment_predicts_words_it_has_never_seen(trained):
    assert 0 < sentiment.predict("Zzyzx!?", trained[1]) < 1


def test_sentiment_wants_words_and_a_checkpoint(trained, tmp_path):
    with pytest.raises(ValueError, match="at least one word, got ' '"):
        sentiment.predict(" ", trained[1])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        sentiment.predict("good", tmp_path / "nowhere.safetensors")


def test_words_share_what_they_begin_with():
    vocabulary = sentiment.Vocabulary(["witty", "film"])
    known, new = vocabulary.encode(["witty", "wittily"]).tolist()
    assert (known[0], new[0]) == (2, sentiment.UNKNOWN)
    assert known[1] == new[1], "both begin with wit"
    assert len(known) == len(new) == 8 and max(known + new) < sentiment.PIECES
    assert vocabulary.encode(["a"]).tolist() == [[sentiment.UNKNOWN] + [sentiment.PADDING] * 7]


def test_sentiment_draws_a_picture_or_text(trained, tmp_path, monkeypatch, capsys):
    history = trained[0]["history"]
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "viz" in sentiment.draw(history, tmp_path / "curves.png")
    assert "epoch 2" in capsys.readouterr().out
    monkeypatch.undo()
    pytest.importorskip("matplotlib")
    path = tmp_path / "curves.png"
    assert sentiment.draw(history, path) == path
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_sentiment_reaches_75_percent(tmp_path):
    assert sentiment.main(checkpoint=tmp_path / "sentiment.safetensors")["test_accuracy"] >= 0.75


def test_mnist_learns_and_saves(tmp_path):
    checkpoint = tmp_path / "mnist.safetensors"
    result = mnist.main(steps=25, images=1000, checkpoint=checkpoint)
    assert result["test_accuracy"] > 0.5
    found = torch.load(checkpoint)
    model = mnist.ConvNet()
    model.load_state_dict(found["model"])
    images, labels = mnist.read_digits("t10k")
    with torch.no_grad():
        right = model.eval()(images[:1000]).argmax(1) == labels[:1000]
    assert right.float().mean().item() == pytest.approx(found["test_accuracy"]) == result["test_accuracy"]


def test_mnist_moves_digits():
    image = torch.arange(28.0).expand(1, 1, 28, 28)
    moved = [mnist.shifted(image) for _ in range(20)]
    assert {tuple(one.shape) for one in moved} == {(1, 1, 28, 28)}
    assert {one[0, 0, 14, 14].item() for one in moved} == {12, 13, 14, 15, 16}


def test_char_lm_learns_and_writes():
    options = dict(steps=25, hidden=48, batch_size=32, length=32, learning_rate=1e-2, characters=30, prompt="JULIET:")
    result = char_lm.main(**options)
    assert 3 < result["valid_bits"] < 5, "6.02 is a guess among 65 characters"
    assert result["text"].startswith("JULIET:") and len(result["text"]) == 37
    assert char_lm.main(**options) == result


def test_char_lm_windows_follow_each_other():
    inputs, targets = zip(*char_lm.windows(char_lm.in_rows(torch.arange(23), rows=2), length=3))
    assert [one.tolist() for one in inputs] == [
        [[0, 1, 2], [11, 12, 13]],
        [[3, 4, 5], [14, 15, 16]],
        [[6, 7, 8], [17, 18, 19]],
    ]
    assert all(((target - input) == 1).all() for input, target in zip(inputs, targets))


def test_char_lm_wants_characters_of_the_text():
    with pytest.raises(ValueError, match=r"got 'Ωmega' with \['Ω'\]"):
        char_lm.main(steps=1, prompt="Ωmega")


@pytest.mark.parametrize("example", [sentiment, mnist, char_lm])
def test_options_are_arguments_of_main(example):
    import inspect

    defaults = {name: one.default for name, one in inspect.signature(example.main).parameters.items()}
    options = vars(example.parse([]))
    options.pop("command", None)
    assert options == {name: defaults[name] for name in options}
