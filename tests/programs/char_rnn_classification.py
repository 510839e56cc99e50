"""A recurrent network, written out, reads a name letter by letter and says which language it is from."""

import random
import string
import unicodedata

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn

LETTERS = string.ascii_letters + " .,;'"
NAMES = {
    "Italian": "Rossi Ferrari Russo Bianchi Romano Gallo Conti Ricci Marino Greco Bruno Moretti Lombardi Barbieri".split(),
    "Japanese": "Sato Suzuki Takahashi Tanaka Watanabe Ito Yamamoto Nakamura Kobayashi Kato Yoshida Yamada Sasaki".split(),
    "Irish": "O'Brien O'Connor O'Neill O'Reilly O'Sullivan O'Kelly O'Dowd O'Hara O'Shea O'Rourke O'Malley".split(),
}
CATEGORIES = list(NAMES)


def to_ascii(text):
    return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn" and c in LETTERS)


def line_to_tensor(line):
    tensor = torch.zeros(len(line), 1, len(LETTERS))
    for place, letter in enumerate(line):
        tensor[place][0][LETTERS.find(letter)] = 1
    return tensor


class RNN(nn.Module):
    def __init__(self, input_size, hidden_size, output_size):
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size, hidden_size)
        self.h2h = nn.Linear(hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)

    def forward(self, input, hidden):
        hidden = F.tanh(self.i2h(input) + self.h2h(hidden))
        return F.log_softmax(self.h2o(hidden), dim=1), hidden

    def init_hidden(self):
        return torch.zeros(1, self.hidden_size)


def category_from_output(output):
    _, top_index = output.topk(1)
    return CATEGORIES[top_index[0].item()]


def train(rnn, criterion, category_tensor, line_tensor, rate):
    hidden = rnn.init_hidden()
    rnn.zero_grad()
    for i in range(line_tensor.size()[0]):
        output, hidden = rnn(line_tensor[i], hidden)
    loss = criterion(output, category_tensor)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(rnn.parameters(), 3.0)
    for p in rnn.parameters():
        p.data.add_(p.grad.data, alpha=-rate)
    return output, loss.item()


def main(steps=600):
    random.seed(0)
    torch.manual_seed(0)
    rnn = RNN(len(LETTERS), 32, len(CATEGORIES))
    losses = []
    for _ in range(steps):
        category = random.choice(CATEGORIES)
        line = to_ascii(random.choice(NAMES[category]))
        target = torch.tensor([CATEGORIES.index(category)], dtype=torch.long)
        _, loss = train(rnn, nn.NLLLoss(), target, line_to_tensor(line), 0.05)
        losses.append(loss)
    right = 0
    with torch.no_grad():
        for category, names in NAMES.items():
            for name in names:
                hidden = rnn.init_hidden()
                for letter in line_to_tensor(to_ascii(name)):
                    output, hidden = rnn(letter, hidden)
                right += category_from_output(output) == category
    return {"first": losses[0], "accuracy": right / sum(map(len, NAMES.values()))}


if __name__ == "__main__":
    print(main())
