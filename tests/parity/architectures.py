"""Models of several architectures, each written once: the same code with `torch` or `dynograd` in the place of `T`."""

import math

import numpy


def resnet18(T):
    nn = T.nn

    class Block(nn.Module):
        def __init__(self, inner, outer, stride):
            super().__init__()
            self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outer)
            self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outer)
            self.downsample = None
            if stride != 1 or inner != outer:
                self.downsample = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

        def forward(self, x):
            skip = x if self.downsample is None else self.downsample(x)
            x = T.relu(self.bn1(self.conv1(x)))
            return T.relu(self.bn2(self.conv2(x)) + skip)

    class ResNet(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.maxpool = nn.MaxPool2d(3, 2, 1)
            sizes = [width, width, 2 * width, 4 * width, 8 * width]
            for number in range(1, 5):
                stride = 1 if number == 1 else 2
                first = Block(sizes[number - 1], sizes[number], stride)
                setattr(self, f"layer{number}", nn.Sequential(first, Block(sizes[number], sizes[number], 1)))
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.fc = nn.Linear(8 * width, 10)

        def forward(self, x):
            x = self.maxpool(T.relu(self.bn1(self.conv1(x))))
            for number in range(1, 5):
                x = getattr(self, f"layer{number}")(x)
            return self.fc(T.flatten(self.avgpool(x), 1))

    return ResNet()


def lstm_language_model(T):
    class Model(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = T.nn.Embedding(50, 24, padding_idx=0)
            self.rnn = T.nn.LSTM(24, 24, 2, batch_first=True)
            self.head = T.nn.Linear(24, 50)
            self.head.weight = self.embed.weight  # tied

        def forward(self, words):
            return self.head(self.rnn(self.embed(words))[0])

    return Model()


def transformer(T):
    class Model(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = T.nn.Embedding(40, 16)
            places, rates = numpy.arange(20)[:, None], numpy.exp(numpy.arange(0, 16, 2) * (-math.log(1e4) / 16))
            table = numpy.stack([numpy.sin(places * rates), numpy.cos(places * rates)], -1).reshape(20, 16)
            self.register_buffer("places", T.tensor(table.astype("float32")))
            self.body = T.nn.Transformer(16, 4, 2, 2, 32, dropout=0.0, batch_first=True, norm_first=True)
            self.head = T.nn.Linear(16, 40)

        def forward(self, source, target):
            source, target = (self.embed(element) + self.places[: element.shape[1]] for element in (source, target))
            mask = T.nn.Transformer.generate_square_subsequent_mask(target.shape[1])
            return self.head(self.body(source, target, tgt_mask=mask))

    return Model()


def vision_transformer(T):
    nn = T.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches = nn.Conv2d(3, 24, 8, 8)
            self.cls_token = nn.Parameter(T.zeros(1, 1, 24))
            self.places = nn.Parameter(T.zeros(1, 17, 24))
            layer = nn.TransformerEncoderLayer(24, 3, 48, 0.0, "gelu", batch_first=True, norm_first=True)
            self.blocks = nn.TransformerEncoder(layer, 2, nn.LayerNorm(24), enable_nested_tensor=False)
            self.head = nn.Linear(24, 10)

        def forward(self, x):
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = T.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.places
            return self.head(self.blocks(x)[:, 0])

    return Model()


def u_net(T):
    nn = T.nn

    def twice(inner, outer):
        parts = []
        for size in (inner, outer):
            parts += [nn.Conv2d(size, outer, 3, padding=1), nn.BatchNorm2d(outer), nn.LeakyReLU(0.1)]
        return nn.Sequential(*parts)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.down = nn.ModuleList([twice(3, 6), twice(6, 12)])
            self.middle = twice(12, 24)
            self.up = nn.ModuleList([nn.ConvTranspose2d(24, 12, 2, 2), nn.ConvTranspose2d(12, 6, 2, 2)])
            self.join = nn.ModuleDict({"0": twice(24, 12), "1": twice(12, 6)})
            self.head = nn.Conv2d(6, 2, 1)

        def forward(self, x):
            kept = []
            for block in self.down:
                x = block(x)
                kept.append(x)
                x = nn.functional.max_pool2d(x, 2)
            x = self.middle(x)
            for number, up in enumerate(self.up):
                x = self.join[str(number)](T.cat([up(x), kept[-1 - number]], 1))
            return self.head(x)

    return Model()


def gan(T):
    nn = T.nn
    normed = nn.utils.spectral_norm

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.generator = nn.Sequential(
                nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
                nn.BatchNorm2d(16),
                nn.ReLU(),
                nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False),
                nn.InstanceNorm2d(8, affine=True, track_running_stats=True),
                nn.PReLU(8),
                nn.ConvTranspose2d(8, 3, 4, 2, 1),
                nn.Tanh(),
            )
            self.discriminator = nn.Sequential(
                normed(nn.Conv2d(3, 8, 4, 2, 1)),
                nn.LeakyReLU(0.2),
                normed(nn.Conv2d(8, 16, 4, 2, 1)),
                nn.GroupNorm(4, 16),
                nn.Flatten(),
                nn.utils.parametrizations.spectral_norm(nn.Linear(256, 1)),
            )

        def forward(self, z):
            return self.discriminator(self.generator(z))

    return Model()


def seq2seq(T):
    nn = T.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(30, 12)
            self.encoder = nn.GRU(12, 10, bidirectional=True, batch_first=True)
            self.start = nn.Linear(20, 16)
            self.cell = nn.GRUCell(12 + 20, 16)
            self.score = nn.Bilinear(16, 20, 1)
            self.head = nn.Linear(36, 30)

        def forward(self, source, target):
            seen, last = self.encoder(self.embed(source))
            state = self.start(T.cat([last[0], last[1]], 1)).tanh()
            context, outputs = seen.mean(1), []
            for step in range(target.shape[1]):
                state = self.cell(T.cat([self.embed(target[:, step]), context], 1), state)
                wide = state.unsqueeze(1).expand(-1, seen.shape[1], -1).contiguous()
                weights = T.softmax(self.score(wide, seen).squeeze(-1), 1)
                context = T.bmm(weights.unsqueeze(1), seen).squeeze(1)
                outputs.append(self.head(T.cat([state, context], 1)))
            return T.stack(outputs, 1)

    return Model()


def convnext(T):
    nn = T.nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.dwconv = nn.Conv2d(width, width, 7, padding=3, groups=width)
            self.norm = nn.LayerNorm(width, eps=1e-6)
            self.pwconv1 = nn.utils.parametrizations.weight_norm(nn.Linear(width, 4 * width))
            self.pwconv2 = nn.utils.weight_norm(nn.Linear(4 * width, width))
            self.gamma = nn.Parameter(T.full((width,), 0.1))

        def forward(self, x):
            y = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
            return x + (self.gamma * self.pwconv2(nn.functional.gelu(self.pwconv1(y)))).permute(0, 3, 1, 2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 4, 4), nn.GroupNorm(1, 8))
            self.stages = nn.ModuleList([nn.Sequential(Block(8), Block(8)), nn.Sequential(Block(16))])
            self.between = nn.Conv2d(8, 16, 2, 2)
            self.norm = nn.RMSNorm(16)
            self.head = nn.Linear(16, 10)

        def forward(self, x):
            x = self.stages[1](self.between(self.stages[0](self.stem(x))))
            return self.head(self.norm(x.mean((-2, -1))))

    return Model()


def images(T, rng):
    return (T.tensor(rng.normal(size=(4, 3, 32, 32)).astype("float32")),)


def words(count, *shapes):
    return lambda T, rng: tuple(T.tensor(rng.integers(1, count, shape)) for shape in shapes)


MODELS = {
    "ResNet-18": (resnet18, images),
    "LSTM language model": (lstm_language_model, words(50, (3, 11))),
    "Transformer": (transformer, words(40, (3, 9), (3, 7))),
    "ViT": (vision_transformer, images),
    "U-Net": (u_net, images),
    "GAN": (gan, lambda T, rng: (T.tensor(rng.normal(size=(4, 8, 1, 1)).astype("float32")),)),
    "seq2seq": (seq2seq, words(30, (3, 6), (3, 5))),
    "ConvNeXt": (convnext, images),
}
