"""A spatial transformer network (Jaderberg et al. 2015) turns pictures upright before it classifies them."""

import dynograd as torch
import dynograd.nn as nn
import dynograd.nn.functional as F
from dynograd import optim


def pictures(count):
    """Bars, crosses and corners, turned by up to 60 degrees."""
    base = torch.zeros(3, 1, 28, 28)
    base[0, 0, 12:16, 4:24] = 1
    base[1, 0, 12:16, 4:24] = 1
    base[1, 0, 4:24, 12:16] = 1
    base[2, 0, 4:8, 4:24] = 1
    base[2, 0, 4:24, 4:8] = 1
    labels = torch.randint(0, 3, (count,))
    angle = (torch.rand(count) - 0.5) * 2.1
    theta = torch.stack(
        [
            torch.stack([angle.cos(), -angle.sin(), torch.zeros(count)], 1),
            torch.stack([angle.sin(), angle.cos(), torch.zeros(count)], 1),
        ],
        1,
    )
    grid = F.affine_grid(theta, (count, 1, 28, 28), align_corners=False)
    turned = F.grid_sample(base[labels], grid, align_corners=False)
    return turned + 0.1 * torch.randn_like(turned), labels


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        self.conv2_drop = nn.Dropout2d()
        self.fc1 = nn.Linear(320, 50)
        self.fc2 = nn.Linear(50, 10)
        self.localization = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=7),
            nn.MaxPool2d(2, stride=2),
            nn.ReLU(True),
            nn.Conv2d(8, 10, kernel_size=5),
            nn.MaxPool2d(2, stride=2),
            nn.ReLU(True),
        )
        self.fc_loc = nn.Sequential(nn.Linear(10 * 3 * 3, 32), nn.ReLU(True), nn.Linear(32, 3 * 2))
        self.fc_loc[2].weight.data.zero_()
        self.fc_loc[2].bias.data.copy_(torch.tensor([1, 0, 0, 0, 1, 0], dtype=torch.float))

    def stn(self, x):
        xs = self.localization(x).view(-1, 10 * 3 * 3)
        theta = self.fc_loc(xs).view(-1, 2, 3)
        grid = F.affine_grid(theta, x.size(), align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)

    def forward(self, x):
        x = self.stn(x)
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.conv2_drop(self.conv2(x)), 2))
        x = x.view(-1, 320)
        x = F.dropout(F.relu(self.fc1(x)), training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


def main(steps=60):
    torch.manual_seed(0)
    model = Net()
    optimizer = optim.Adam(model.parameters(), lr=0.002)
    model.train()
    for _ in range(steps):
        data, target = pictures(64)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        data, target = pictures(300)
        predicted = model(data).max(1, keepdim=True)[1]
        right = predicted.eq(target.view_as(predicted)).sum().item()
        assert model.stn(data).shape == data.shape
    return {"loss": loss.item(), "accuracy": right / 300}


if __name__ == "__main__":
    print(main())
