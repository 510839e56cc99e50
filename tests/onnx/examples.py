"""Models of the examples, and of the architectures whose weights travel: (how it is made, example, dynamic axes by (input, axis))."""

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
    seq2seq,
    shift_reduce,
    transformer_lm,
    vae,
    wgan_gp,
)

BATCH = {(0, 0): "batch"}
TEXT = {(0, 0): "batch", (0, 1): "time"}


def ids(*shape):
    return torch.randint(1, 20, shape)


def pictures(*shape):
    return torch.rand(*shape)


class OneProgram(torch.nn.Module):
    """The network of one question."""

    def __init__(self):
        super().__init__()
        self.network = program_net.ModuleNetwork(6)

    def forward(self, board):
        return self.network(board, ("more", ("left", ("find", 3)), ("both", ("find", 1), ("not", ("find", 2)))))


class OneGraph(torch.nn.Module):
    """The network of one graph."""

    def __init__(self):
        super().__init__()
        self.network = gcn.GCN(6, 4, 3)
        self.links = torch.eye(5).roll(1, 0).to_sparse()

    def forward(self, x):
        return self.network(x, self.links)


class ScoresOfMoves(torch.nn.Module):
    """The scores before each move of a parser that is told the moves; words are numbers."""

    def __init__(self):
        super().__init__()
        self.parser = shift_reduce.Parser(list("abcd"), 6, 0.0)
        self.parser.number = lambda number: number

    def forward(self, words):
        shift, left, right = shift_reduce.SHIFT, shift_reduce.LEFT, shift_reduce.RIGHT
        return torch.stack(self.parser(list(words), [shift, shift, left, shift, right, right]))


class Neighbourhood(torch.nn.Module):
    """The network of graphs of one form, of the words of each paper."""

    def __init__(self):
        super().__init__()
        self.network = graph_net.GraphNetwork(9, 6, 3, 0.0)
        self.graph = graph_net.Graph(0, [torch.zeros(0)] * 4, [[1, 2], [0, 3], [0], [1]])

    def forward(self, words):
        self.graph.words = words
        return self.network(self.graph)


MODELS = {
    "mnist": (lambda: mnist.ConvNet(4), lambda: (pictures(2, 1, 28, 28),), BATCH),
    "char_lm": (lambda: char_lm.CharacterModel(20, 8, 12), lambda: (ids(2, 5),), TEXT),
    "char_lm goes on": (
        lambda: char_lm.CharacterModel(20, 8, 12),
        lambda: (ids(2, 5), (torch.randn(1, 2, 12), torch.randn(1, 2, 12))),
        {**TEXT, (1, 1): "batch", (2, 1): "batch"},
    ),
    "transformer_lm": (lambda: transformer_lm.CharacterModel(20, 64, 16, 2, 2), lambda: (ids(2, 5),), TEXT),
    "vae encoder": (lambda: vae.VAE(20, 4).encoder, lambda: (pictures(2, 784),), BATCH),
    "vae decoder": (lambda: vae.VAE(20, 4).decoder, lambda: (torch.randn(2, 4),), BATCH),
    "dcgan generator": (lambda: dcgan.generator(6, 2), lambda: (torch.randn(2, 6, 1, 1),), BATCH),
    "dcgan discriminator": (lambda: dcgan.discriminator(2), lambda: (pictures(2, 1, 28, 28),), BATCH),
    "reinforce": (lambda: reinforce.Policy(8).layers, lambda: (torch.randn(3, 4),), BATCH),
    "hypernetwork": (
        lambda: hypernetwork.Classifiers(49, 4),
        lambda: (pictures(3, 1, 7, 7), torch.rand(3)),
        {(0, 0): "batch", (1, 0): "batch"},
    ),
    "hypernetwork plain": (
        lambda: hypernetwork.Classifiers(49, 4, True),
        lambda: (pictures(3, 1, 7, 7), torch.rand(3)),
        {(0, 0): "batch", (1, 0): "batch"},
    ),
    "seq2seq": (
        lambda: seq2seq.Translator(20, 20, 8, 6),
        lambda: (ids(3, 5), torch.tensor([5, 2, 3]), ids(3, 4)),
        {(0, 0): "batch", (1, 0): "batch", (2, 0): "batch", (0, 1): "time"},
    ),
    "bilstm_crf": (
        lambda: bilstm_crf.Tagger(20, 4, 6, 5),
        lambda: (ids(3, 5, 5), torch.tensor([5, 2, 3])),
        {(0, 0): "batch", (1, 0): "batch", (0, 1): "time"},
    ),
    "mixed_sizes": (lambda: mixed_sizes.Classifier(4, 2), lambda: ([pictures(1, 8, 8), pictures(1, 9, 11)],), {}),
    "wgan_gp generator": (lambda: wgan_gp.generator(6, 2), lambda: (torch.randn(2, 6),), BATCH),
    "wgan_gp critic": (lambda: wgan_gp.critic_network(2), lambda: (pictures(2, 1, 28, 28),), BATCH),
    "tree_lstm cell": (lambda: torch.nn.BinaryTreeLSTMCell(6, 5), lambda: (torch.randn(3, 6),), BATCH),
    "shift_reduce": (ScoresOfMoves, lambda: (torch.tensor([2, 0, 3]),), {}),
    "shift_reduce scorer": (
        lambda: shift_reduce.Parser(list("abcd"), 6, 0.0).scorer,
        lambda: tuple([torch.randn(6) for _ in range(4)]),
        {},
    ),
    "graph_net": (
        Neighbourhood,
        lambda: ([ids(count) % 9 for count in (2, 3, 4, 2)],),
        {(number, 0): f"words_{number}" for number in range(4)},
    ),
    "graph_net reader": (lambda: graph_net.Reader(9, 6), lambda: (ids(3) % 9,), {(0, 0): "words"}),
    "program_net": (lambda: OneProgram(), lambda: (pictures(9, 196),), {}),
}
