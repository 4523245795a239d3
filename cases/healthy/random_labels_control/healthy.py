"""How much can the model learn by heart? The same training on true labels, and on labels put in a random order."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def learn(points, labels, epochs=4):
    net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    loader = DataLoader(TensorDataset(points, labels), batch_size=20, shuffle=True)
    for _ in range(epochs):
        right = 0
        for x, y in loader:
            out = net(x)
            loss = nn.functional.cross_entropy(out, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            right += (out.argmax(1) == y).sum().item()
    return right / len(points)


torch.manual_seed(40)
labels = torch.randint(0, 3, (300,))
points = torch.randn(300, 5) + 1.5 * nn.functional.one_hot(labels, 5)
scrambled = labels[torch.randperm(300)]
print(f"true labels: {learn(points, labels):.3f}")
print(f"scrambled labels: {learn(points, scrambled):.3f}")
