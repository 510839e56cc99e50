"""The program that the test of the language server keeps open: a classifier of sentences, as a user would write it."""

import dynograd as torch
import dynograd.nn.functional as F
from dynograd import nn, optim
from dynograd.data import DataLoader, TensorDataset


class Classifier(nn.Module):
    """Words to vectors, an LSTM over them, one score for each class."""

    def __init__(self, words: int, width: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.reader = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.1)
        self.output = nn.Linear(width, classes)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        states, (last, cell) = self.reader(self.embedding(words))
        self.memory = cell.shape
        self.width = states.shape[-1]
        hidden = self.dropout(last[-1])
        return self.output(torch.relu(hidden))


def spectrum(matrix: torch.Tensor) -> torch.Tensor:
    _, singular, _ = torch.linalg.svd(matrix)
    return singular


def train(model: Classifier, words: torch.Tensor, labels: torch.Tensor) -> float:
    loader = DataLoader(TensorDataset(words, labels), batch_size=16, shuffle=True)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=10)
    total = 0.0
    for batch, target in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu"):
            scores = model(batch)
        loss = F.cross_entropy(scores, target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        number = loss.item()
        total += number
    schedule.step()
    return total


def predict(model: Classifier, words: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        logits = model(words)
        chances = torch.softmax(logits, dim=1)
        best = chances.max(dim=1)
        rows = logits.shape[0]
        batch_sizes = logits.size()
        print(rows, batch_sizes, chances.sum(), logits.mean(dim=0).device, words.dtype)
        return best.values


def lengths(sentences: list[list[float]]) -> torch.Tensor:
    ragged = torch.ragged_tensor(sentences)
    joined = torch.cat([torch.tensor(sentence) for sentence in sentences], dim=0)
    return joined + ragged.sum()


def outer(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    rows = torch.batched(lambda row: row * right)
    power = left @ right**2
    return torch.stack(rows(left)) + power


if __name__ == "__main__":
    classifier = Classifier(words=100, width=16, classes=3)
    convolution = nn.Conv2d(3, 8, kernel_size=3)
    stack = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    generator = torch.Generator()
    torch.save(classifier.state_dict(), "classifier.pt")
    classifier.load_state_dict(torch.load("classifier.pt"))
    print(convolution.weight.shape, stack(torch.zeros(2, 4)), generator, classifier.reader.hidden_size)
