"""Each example runs, on few steps; what it saves is what it has trained; the same seed gives the same bits."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import dynograd as torch
from examples import (
    bilstm_crf,
    char_lm,
    dcgan,
    gcn,
    graph_net,
    hypernetwork,
    mixed_sizes,
    mnist,
    program_net,
    reinforce,
    sentiment,
    seq2seq,
    serve_sentiment,
    serve_writer,
    shift_reduce,
    text_transformer,
    transformer_lm,
    vae,
    wgan_gp,
)

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
    assert {name: len(result) for name, result in splits.items()} == {"train": 8574, "valid": 995, "test": 1093}
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
    compiled = short_run(tmp_path / "compiled.safetensors", workers=0, compile=True)
    assert again == result == compiled
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
    actual = torch.load(checkpoint)
    model = mnist.ConvNet()
    model.load_state_dict(actual["model"])
    images, labels = mnist.read_digits("t10k")
    with torch.no_grad():
        right = model.eval()(images[:1000]).argmax(1) == labels[:1000]
    assert right.float().mean().item() == pytest.approx(actual["test_accuracy"]) == result["test_accuracy"]


def test_mnist_moves_digits():
    image = torch.arange(28.0).expand(1, 1, 28, 28)
    moved = [mnist.shifted(image) for _ in range(20)]
    assert {tuple(element.shape) for element in moved} == {(1, 1, 28, 28)}
    assert {element[0, 0, 14, 14].item() for element in moved} == {12, 13, 14, 15, 16}


def test_char_lm_learns_and_writes():
    options = dict(steps=25, hidden=48, batch_size=32, length=32, learning_rate=1e-2, characters=30, prompt="JULIET:")
    result = char_lm.main(**options)
    assert 3 < result["valid_bits"] < 5, "6.02 is a guess among 65 characters"
    assert result["text"].startswith("JULIET:") and len(result["text"]) == 37
    assert char_lm.main(**options) == result


def test_char_lm_windows_follow_each_other():
    inputs, targets = zip(*char_lm.windows(char_lm.in_rows(torch.arange(23), rows=2), length=3))
    assert [operand.tolist() for operand in inputs] == [
        [[0, 1, 2], [11, 12, 13]],
        [[3, 4, 5], [14, 15, 16]],
        [[6, 7, 8], [17, 18, 19]],
    ]
    assert all(((target - input) == 1).all() for input, target in zip(inputs, targets))


def test_char_lm_wants_characters_of_the_text():
    with pytest.raises(ValueError, match=r"got 'Ωmega' with \['Ω'\]"):
        char_lm.main(steps=1, prompt="Ωmega")


# --- adversarial networks, autoencoders, hypernetworks ---------------------------------------------------------------------------


def test_dcgan_draws_pictures(tmp_path):
    picture = tmp_path / "new" / "digits.pgm"
    result = dcgan.main(steps=2, batch_size=16, latent=8, channels=4, images=200, picture=picture)
    assert result["distance"] > result["real_distance"] >= 0
    assert picture.read_bytes().startswith(b"P5 224 224 255\n") and picture.stat().st_size == 15 + 224 * 224


def test_frechet_distance_is_that_of_means_where_spreads_are_equal():
    digits = dcgan.read_digits("t10k")[:300]
    distance = dcgan.FrechetDistance(digits, size=10)
    way = distance.axes[:, -1].reshape(28, 28).float()
    assert abs(distance(digits)) < 1e-6
    assert distance(digits + 0.5 * way) == pytest.approx(0.25, rel=1e-4)
    assert distance(digits[:100]) > 0.1


def test_wgan_trains_the_critic_more_often(tmp_path, monkeypatch):
    created = []
    plain = wgan_gp.slopes
    monkeypatch.setattr(
        wgan_gp, "slopes", lambda *a, create_graph=False: created.append(create_graph) or plain(*a, create_graph)
    )
    options = dict(steps=2, batch_size=8, latent=8, channels=4, critic_steps=3, images=40, picture=tmp_path / "a.pgm")
    result = wgan_gp.main(**options)
    assert created.count(True) == 6 and (tmp_path / "a.pgm").exists()
    assert result["slope"] > 0


def test_slopes_are_lengths_of_gradients():
    weight = torch.randn(784)

    def critic(pictures):
        return pictures.flatten(1) @ weight

    result = wgan_gp.slopes(critic, torch.rand(3, 1, 28, 28), torch.rand(3, 1, 28, 28))
    assert result.tolist() == pytest.approx([weight.norm().item()] * 3, rel=1e-5)


def test_vae_learns_a_bound(tmp_path):
    result = vae.main(steps=30, images=1000, hidden=64, latent=4, picture=tmp_path / "a.pgm")
    assert 150 < result["test_bound"] < 400, "543 is a coin for every pixel"
    assert (tmp_path / "a.pgm").read_bytes().startswith(b"P5 224 224 255\n")


def test_every_picture_has_weights_of_its_own():
    torch.manual_seed(0)
    model = hypernetwork.Classifiers(9, width=4)
    pictures, angles = torch.rand(5, 1, 3, 3), hypernetwork.drawn_angles(5)
    result = model(pictures, angles)
    for picture, angle, scores in zip(pictures, angles, result):
        weights = model.hyper(torch.stack([angle.cos(), angle.sin()]))
        hidden = (weights["1.weight"] @ picture.flatten() + weights["1.bias"]).relu()
        assert torch.allclose(weights["3.weight"] @ hidden + weights["3.bias"], scores, atol=1e-5)
    assert {name.split(".")[0] for name, _ in model.named_parameters()} == {"hyper"}


def test_hypernetwork_turns_digits_and_learns():
    pictures, _ = hypernetwork.read_digits("t10k")
    quarter = hypernetwork.turned(pictures[:2], torch.full((2,), hypernetwork.math.pi / 2), size=28)
    assert torch.allclose(quarter, pictures[:2].rot90(1, (2, 3)), atol=1e-5) or torch.allclose(
        quarter, pictures[:2].rot90(-1, (2, 3)), atol=1e-5
    )
    for plain in (False, True):
        result = hypernetwork.main(steps=12, images=300, plain=plain)
        assert 0.05 < result["test_accuracy"] < 0.9


# --- decisions and graphs --------------------------------------------------------------------------------------------------------


def test_carts_that_are_always_pushed_to_one_side_drop_their_poles():
    carts = reinforce.CartPoles(3, limit=100)
    assert carts.reset().shape == (3, 4)
    steps, running = 0, torch.arange(3).numpy()
    while len(running):
        _, runs = carts.step(running, running * 0 + 1)
        running, steps = running[runs], steps + 1
    assert 7 <= steps <= 12
    assert (carts.states[:, 0] > 0).all() and (carts.states[:, 2] < 0).all(), "they moved right and the poles fell left"


def test_returns_count_the_steps_still_lived():
    who = torch.tensor([0, 1, 0, 1, 0]).numpy()
    assert reinforce.returns_to_go(who, 2, 0.5).tolist() == [1.75, 1.5, 1.5, 1.0, 1.0]


def test_reinforce_plays_and_learns():
    result = reinforce.main(steps=12, episodes=8, limit=60)
    assert 8 < result["first_steps"] < 40 < result["mean_steps"] <= 60
    assert reinforce.main(steps=12, episodes=8, limit=60) == result


def test_gcn_reads_a_symmetric_graph_and_learns():
    words, links, labels, split = gcn.read_graph()
    assert [len(split[name]) for name in ("train", "val", "test")] == [140, 500, 1000]
    assert words.shape == (2708, 1433) and labels.bincount().shape == (7,)
    x = torch.rand(2708, 1)
    assert torch.allclose(torch.sparse.mm(links, x), torch.sparse.mm(links.transpose(0, 1), x), atol=1e-6)
    assert torch.allclose(torch.sparse.mm(words, torch.ones(1433, 1)), torch.ones(2708, 1))
    result = gcn.main(steps=25)
    assert result["test_accuracy"] > 0.55 and 1 <= result["step"] <= 25


@pytest.mark.slow
def test_gcn_reaches_80_percent():
    assert gcn.main()["test_accuracy"] >= 0.80


# --- sequences and sizes ---------------------------------------------------------------------------------------------------------


def test_bilstm_crf_reads_and_learns():
    splits = {name: bilstm_crf.read_sentences(name) for name in ("train", "dev", "test")}
    assert [(len(split), sum(map(len, split))) for split in splits.values()] == [
        (4274, 48655),
        (572, 6644),
        (586, 6580),
    ]
    assert splits["train"][0][:3] == [("what", "PRON"), ("is", "AUX"), ("the", "DET")]
    result = bilstm_crf.main(steps=40, sentences=300, hidden=24, learning_rate=1e-2)
    assert result["test_accuracy"] > 0.4, "0.3 is the most frequent subject"
    assert bilstm_crf.main(steps=40, sentences=300, hidden=24, learning_rate=1e-2) == result


def test_a_tag_that_training_lacks_is_always_wrong():
    encode = bilstm_crf.Encoder([[("fly", "VERB"), ("fly", "NOUN")]])
    words, tags = encode([("fly", "NOUN"), ("oh", "INTJ")])
    assert tags.tolist() == [0, 2] and encode.tags == ["NOUN", "VERB"]
    assert words[:, 0].tolist() == [2, bilstm_crf.UNKNOWN] and words.shape == (2, 5)


@pytest.mark.slow
def test_bilstm_crf_reaches_96_percent():
    assert bilstm_crf.main(epochs=6)["test_accuracy"] >= 0.96


def test_seq2seq_splits_by_the_english_sentence_and_translates(capsys):
    splits = seq2seq.read_splits()
    assert sum(map(len, splits.values())) == 5000
    english = [{" ".join(source) for source, _ in results} for results in splits.values()]
    assert not (english[0] & english[1] or english[0] & english[2] or english[1] & english[2])
    assert seq2seq.words_of("J'ai faim !") == ["j'", "ai", "faim", "!"]
    result = seq2seq.main(steps=12, pairs=200, hidden=24, sentence="I won.")
    assert 2 < result["test_loss"] < 7 and 0 <= result["test_exact"] <= 1
    assert "i won . ->" in capsys.readouterr().out


def test_attention_sees_no_padding():
    torch.manual_seed(0)
    model = seq2seq.Translator(9, 9, size=6, hidden=5).eval()
    short, long = torch.tensor([[1, 5, 2]]), torch.tensor([[1, 5, 2, 0, 0], [1, 4, 5, 6, 2]])
    french = torch.tensor([[1, 7, 8]])
    alone = model(short, torch.tensor([3]), french)
    beside = model(long, torch.tensor([3, 5]), french.expand(2, 3))
    assert torch.allclose(alone[0], beside[0], atol=1e-6)


def test_transformer_lm_learns_and_writes():
    options = dict(
        steps=12, size=32, layers=1, batch_size=16, length=24, characters=20, learning_rate=1e-2, evaluations=2
    )
    result = transformer_lm.main(**options)
    assert 3 < result["test_bits"] < 5.5, "6.02 is a guess among 65 characters"
    assert result["text"].startswith("ROMEO:") and len(result["text"]) == 26
    with pytest.raises(ValueError, match=r"got 'Ω' with \['Ω'\]"):
        transformer_lm.main(steps=1, prompt="Ω")


@pytest.mark.parametrize(
    "main, options, name",
    [
        (transformer_lm.main, dict(steps=6, batch_size=4, length=24, size=16, layers=1, characters=3), "test_bits"),
        (dcgan.main, dict(steps=5, batch_size=16, latent=8, channels=4, images=200), "distance"),
        (reinforce.main, dict(steps=4, episodes=4, limit=30), "first_steps"),
    ],
)
def test_compiled_steps_give_what_steps_give_as_they_are_written(main, options, name, tmp_path):
    options |= {"picture": tmp_path / "drawn.pgm"} if main is dcgan.main else {}
    expected, argument = (main(**options, compile=compiles)[name] for compiles in (False, True))
    assert argument == pytest.approx(expected, rel=1e-3)


def test_transformer_lm_sees_only_what_came_before():
    torch.manual_seed(0)
    model = transformer_lm.CharacterModel(9, length=6, size=8, heads=2, layers=2).eval()
    element, other = torch.tensor([[1, 2, 3, 4, 5, 6]]), torch.tensor([[1, 2, 3, 7, 8, 0]])
    assert torch.allclose(model(element)[:, :3], model(other)[:, :3], atol=1e-6)
    assert not torch.allclose(model(element)[:, 3], model(other)[:, 3], atol=1e-3)


def test_mixed_sizes_cuts_pictures_and_learns():
    digits = mixed_sizes.read_digits("t10k", 300)
    assert len({picture.shape for picture, _ in digits}) > 10
    assert all(picture[:, 0].any() and picture[:, -1].any() for picture, _ in digits)
    assert all(picture[:, :, 0].any() and picture[:, :, -1].any() for picture, _ in digits)
    result = mixed_sizes.main(steps=12, images=300, channels=8)
    assert 0.1 < result["test_accuracy"] <= 1 and result["sizes"] > 10


def test_mixed_sizes_scores_each_picture_as_if_alone():
    torch.manual_seed(0)
    model = mixed_sizes.Classifier(channels=4).eval()
    pictures = [torch.rand(1, 20, 3), torch.rand(1, 11, 20), torch.rand(1, 1, 1)]
    together = model(pictures)
    for picture, scores in zip(pictures, together):
        assert torch.allclose(model([picture])[0], scores, atol=1e-6)


def test_text_transformer_learns_from_sentences_of_any_length(capsys):
    result = text_transformer.main(steps=20, batch_size=16, sentences=160)
    assert 0 <= result["accuracy"] <= 1 and result["tokens_per_second"] > 0
    assert "test accuracy" in capsys.readouterr().out


def test_text_transformer_scores_each_sentence_as_if_alone():
    model = text_transformer.Classifier(50).eval()
    sentences = [torch.randint(0, 50, (length,)) for length in (5, 1, 12)]
    with torch.use_batch_invariant(True), torch.no_grad():
        together = model(torch.ragged_tensor(sentences))
        alone = [model(torch.ragged_tensor([sentence])) for sentence in sentences]
    assert together.tolist() == torch.cat(alone).tolist()


# --- another structure for every example -----------------------------------------------------------------------------------------


def assert_batched_as_alone(model, loss_of):
    """loss_of(plain) and its gradients are the same with and without autobatch."""
    results = []
    for plain in (False, True):
        model.zero_grad()
        loss = loss_of(plain)
        loss.backward()
        results.append(
            [loss.detach(), *(parameter.grad for parameter in model.parameters() if parameter.grad is not None)]
        )
    assert len(results[0]) == len(results[1])
    assert all(torch.allclose(element, other, rtol=1e-3, atol=1e-5) for element, other in zip(*results))


def test_the_moves_of_a_tree_build_it():
    crossing = 0
    for _, heads in shift_reduce.read_sentences("dev"):
        moves = shift_reduce.oracle(heads)
        crossing += moves is None
        if moves is not None:
            state = shift_reduce.State(len(heads))
            for move in moves:
                assert move in state.allowed()
                state.apply(move)
            assert state.done and state.heads == heads
    assert crossing == 18
    assert shift_reduce.oracle([0]) == [shift_reduce.SHIFT, shift_reduce.RIGHT]
    assert shift_reduce.oracle([3, 4, 0, 3]) is None


def test_a_parser_reads_and_learns():
    result = shift_reduce.main(steps=12, sentences=96, batch_size=8, size=24, learning_rate=1e-2)
    assert 0.05 < result["test_accuracy"] < 0.9 and result["epoch"] == 1


def test_a_parser_does_the_same_with_and_without_batching():
    torch.manual_seed(0)
    sentences = shift_reduce.read_sentences("dev")[:12]
    model = shift_reduce.Parser(sorted({word for words, _ in sentences for word in words}), 12, word_dropout=0.0)
    examples = [(words, shift_reduce.oracle(heads)) for words, heads in sentences]
    assert_batched_as_alone(model, lambda plain: shift_reduce.loss_of(model, examples, plain))
    assert shift_reduce.evaluate(model, sentences)[:2] == shift_reduce.evaluate(model, sentences, plain=True)[:2]


def test_graphs_around_papers():
    links = [[1], [0, 2], [1, 3, 4], [2], [2], []]
    graph = graph_net.Graph(1, [[paper] for paper in range(6)], links)
    assert graph.words == [[1], [0], [2], [3], [4]] and graph.within == [1, 3, 5]
    assert graph.neighbours == [[0, 1, 2], [1, 0], [2, 0, 3, 4]]
    alone = graph_net.Graph(5, [[paper] for paper in range(6)], links)
    assert alone.words == [[5]] and alone.neighbours == [[0]] and alone.within == [1, 1, 1]


def test_graph_net_gives_what_matrices_over_all_papers_give():
    torch.manual_seed(0)
    splits, words, subjects = graph_net.read_graphs()
    assert {name: len(pairs) for name, pairs in splits.items()} == {"train": 140, "val": 500, "test": 1000}
    examples = splits["test"][:12]
    assert len({len(graph.words) for graph, _ in examples}) > 8
    model = graph_net.GraphNetwork(words, 8, subjects, 0.5).eval()
    assert_batched_as_alone(model, lambda plain: graph_net.loss_of(model, examples, plain))
    features, links, _, split = gcn.read_graph()
    links = (links.to_dense() > 0).float()
    links /= links.sum(1, keepdim=True)
    first, second = model.layers
    states = (torch.sparse.mm(features, model.read.embedding.weight) + model.read.bias).relu()
    expected = second(links @ first(links @ states).relu())[split["test"][:12]]
    assert torch.allclose(graph_net.scores_of(model, [graph for graph, _ in examples], False), expected, atol=1e-5)


@pytest.mark.slow
def test_graph_net_learns():
    result = graph_net.main(epochs=8, size=32, learning_rate=1e-2)
    assert result["test_accuracy"] > 0.4, "0.3 is the most frequent subject"


def test_programs_have_answers():
    board = [3, 7, 0, 1, 1, 1, 7, 3, 3]
    left_of_seven = ("left", ("find", 7))
    assert program_net.true_places(left_of_seven, board) == {0}
    assert program_net.true_places(("above", ("find", 7)), board) == {0, 3}
    assert program_net.true_places(("not", ("either", ("find", 1), ("find", 3))), board) == {1, 2, 6}
    for program, answer in (
        (("exist", ("both", ("find", 3), left_of_seven)), "yes"),
        (("exist", ("both", ("find", 1), left_of_seven)), "no"),
        (("more", ("find", 1), ("find", 3)), "no"),
        (("count", ("find", 1)), 3),
        (("count", ("not", ("find", 9))), 9),
    ):
        assert program_net.ANSWERS[program_net.true_answer(program, board)] == answer


def test_program_net_learns():
    result = program_net.main(steps=40, questions=60, size=16)
    assert 0.15 < result["test_accuracy"] < 0.8 and result["step"] == 40
    draw = program_net.random.Random(0)
    digits = program_net.read_digits("t10k")
    examples = [program_net.draw_example(draw, *digits, depth=2) for _ in range(12)]
    model = program_net.ModuleNetwork(8)
    assert_batched_as_alone(
        model,
        lambda plain: torch.nn.functional.cross_entropy(
            program_net.scores_of(model, examples, plain), program_net.answers_of(examples)
        ),
    )


EVERY = [
    bilstm_crf, char_lm, dcgan, gcn, graph_net, hypernetwork, mixed_sizes, mnist, program_net, reinforce, sentiment, seq2seq,
    serve_sentiment, serve_writer, shift_reduce, text_transformer, transformer_lm, vae, wgan_gp,
]  # fmt: skip


@pytest.mark.parametrize("example", EVERY, ids=lambda example: example.__name__)
def test_options_are_arguments_of_main(example):
    import inspect

    defaults = {name: element.default for name, element in inspect.signature(example.main).parameters.items()}
    options = vars(example.parse([]))
    options.pop("command", None)
    assert options == {name: defaults[name] for name in options}
