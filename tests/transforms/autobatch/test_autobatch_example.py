"""`examples/tree_lstm.py` on a few trees, and the same numbers with and without `autobatch`."""

import random

import numpy

import dynograd
from examples import tree_lstm


def test_it_runs():
    fine, binary = tree_lstm.main(["--trees", "60", "--epochs", "1", "--width", "16"])
    assert 0 <= fine <= 1 and 0 <= binary <= 1


def test_with_and_without_autobatch():
    def weights(plain):
        random.seed(1)
        dynograd.manual_seed(1)
        trees = tree_lstm.read("train", 40)
        words = sorted({word for tree in trees for word in tree_lstm.words_of(tree)})
        model = tree_lstm.Classifier(words, 12, 0.3)
        optimizer = dynograd.optim.SGD(model.parameters(), lr=0.1)
        tree_lstm.train_epoch(model, tree_lstm.step_of(model, optimizer), trees, 20, plain, "")
        return [parameter.detach().numpy() for parameter in model.parameters()]

    for element, other in zip(weights(False), weights(True)):
        numpy.testing.assert_allclose(element, other, rtol=1e-4, atol=1e-5)


def test_parse():
    tree = tree_lstm.parse("(3 (2 A) (4 (2 good) (2 fi\u00a0lm)))")
    assert tree.label == 3 and tree.left.word == "a" and list(tree_lstm.words_of(tree)) == ["fi\u00a0lm", "good", "a"]
