"""An encoder and a decoder with Bahdanau's attention translate numbers in words into digits."""

import random

import dynograd as torch
import dynograd.nn as nn
import dynograd.nn.functional as F
from dynograd import optim
from dynograd.utils.data import DataLoader, RandomSampler, TensorDataset

SOS, EOS = 0, 1
ONES = "zero one two three four five six seven eight nine".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
MAX_LENGTH = 5


class Lang:
    def __init__(self):
        self.word2index = {}
        self.index2word = {0: "SOS", 1: "EOS"}

    def indices(self, words):
        for word in words:
            if word not in self.word2index:
                self.word2index[word] = len(self.index2word)
                self.index2word[len(self.index2word)] = word
        return [self.word2index[word] for word in words]


def pairs():
    created = [(word, str(number)) for number, word in enumerate(ONES)]
    for ten, word in enumerate(TENS, 2):
        created += [(word if not number else f"{word} {ONES[number]}", f"{ten} {number}") for number in range(10)]
    return created


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size, dropout_p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input):
        return self.gru(self.dropout(self.embedding(input)))


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys)))
        weights = F.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size, dropout_p=0.1):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRU(2 * hidden_size, hidden_size, batch_first=True)
        self.out = nn.Linear(hidden_size, output_size)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, encoder_outputs, encoder_hidden, target_tensor=None):
        batch_size = encoder_outputs.size(0)
        decoder_input = torch.empty(batch_size, 1, dtype=torch.long).fill_(SOS)
        decoder_hidden = encoder_hidden
        decoder_outputs, attentions = [], []
        for i in range(MAX_LENGTH):
            decoder_output, decoder_hidden, weights = self.forward_step(decoder_input, decoder_hidden, encoder_outputs)
            decoder_outputs.append(decoder_output)
            attentions.append(weights)
            if target_tensor is not None:
                decoder_input = target_tensor[:, i].unsqueeze(1)
            else:
                _, topi = decoder_output.topk(1)
                decoder_input = topi.squeeze(-1).detach()
        return F.log_softmax(torch.cat(decoder_outputs, dim=1), dim=-1), decoder_hidden, torch.cat(attentions, dim=1)

    def forward_step(self, input, hidden, encoder_outputs):
        embedded = self.dropout(self.embedding(input))
        context, weights = self.attention(hidden.permute(1, 0, 2), encoder_outputs)
        output, hidden = self.gru(torch.cat((embedded, context), dim=2), hidden)
        return self.out(output), hidden, weights


def padded(indices):
    return [*indices, EOS, *[0] * (MAX_LENGTH - 1 - len(indices))]


def main(steps=40):
    random.seed(0)
    torch.manual_seed(0)
    words, digits = Lang(), Lang()
    data = pairs()
    inputs = torch.tensor([padded(words.indices(each.split())) for each, _ in data], dtype=torch.long)
    targets = torch.tensor([padded(digits.indices(two.split())) for _, two in data], dtype=torch.long)
    dataset = TensorDataset(inputs, targets)
    loader = DataLoader(dataset, sampler=RandomSampler(dataset), batch_size=16)
    encoder, decoder = EncoderRNN(len(words.index2word), 48), AttnDecoderRNN(48, len(digits.index2word))
    optimizers = [optim.Adam(model.parameters(), lr=5e-3) for model in (encoder, decoder)]
    criterion = nn.NLLLoss()
    for _ in range(steps):
        for source, target in loader:
            for optimizer in optimizers:
                optimizer.zero_grad()
            outputs, _, _ = decoder(*encoder(source), target)
            loss = criterion(outputs.view(-1, outputs.size(-1)), target.view(-1))
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
    encoder.eval()
    decoder.eval()
    right = 0
    with torch.no_grad():
        for element, two in data:
            source = torch.tensor(padded(words.indices(element.split())), dtype=torch.long).view(1, -1)
            outputs, _, attentions = decoder(*encoder(source))
            said = []
            for index in outputs.topk(1)[1].squeeze():
                if index.item() == EOS:
                    break
                said.append(digits.index2word[index.item()])
            right += " ".join(said) == two
    assert attentions.shape == (1, MAX_LENGTH, MAX_LENGTH)
    return {"loss": loss.item(), "accuracy": right / len(data)}


if __name__ == "__main__":
    print(main())
