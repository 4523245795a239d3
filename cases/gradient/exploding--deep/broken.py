import torch
from torch import nn


def init_weights(m):
    if isinstance(m, nn.Linear):
        nn.init.normal_(m.weight, mean=0.0, std=0.6)  # ORIGIN
        nn.init.zeros_(m.bias)


def make_mlp(n_in, width, depth, n_out):
    layers = [nn.Linear(n_in, width), nn.ReLU()]
    for _ in range(depth - 2):
        layers += [nn.Linear(width, width), nn.ReLU()]
    layers.append(nn.Linear(width, n_out))
    return nn.Sequential(*layers).apply(init_weights)


def spirals(n, arms=3):
    label = torch.randint(0, arms, (n,))
    r = torch.rand(n)
    angle = 3.0 * r + 6.2832 * label / arms + 0.1 * torch.randn(n)
    return torch.stack([r * angle.cos(), r * angle.sin()], dim=1) * 1.7, label


torch.manual_seed(21)
net = make_mlp(2, 64, 12, 3)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
x_train, y_train = spirals(480)
for epoch in range(6):
    order = torch.randperm(len(x_train))
    tot = 0.0
    for part in order.chunk(10):
        logits = net(x_train[part])
        loss = nn.functional.cross_entropy(logits, y_train[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        tot += loss.item() / 10
    print(f"epoch {epoch} loss {tot:.4f}")
