"""Online classifier with a confidence penalty; the gain of the sensor array is turned up during the day."""
import torch
from torch import nn

torch.manual_seed(0)
N_CLASSES = 5
PENALTY = 0.05

centres = torch.randn(N_CLASSES, 12)


def measure(hour, n=60):
    gain = 1.0 + 0.6 * hour
    label = torch.randint(N_CLASSES, (n,))
    return gain * (centres[label] + 0.5 * torch.randn(n, 12)), label


net = nn.Sequential(
    nn.Linear(12, 48),
    nn.ReLU(),
    nn.Linear(48, N_CLASSES),
)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
criterion = nn.CrossEntropyLoss()


def entropy(logits):
    p = torch.softmax(logits, dim=1)
    log_p = p.log()  # ORIGIN
    return -(p * log_p).sum(dim=1).mean()


for step in range(72):
    points, label = measure(hour=step / 3)
    optimizer.zero_grad()
    logits = net(points)
    loss = criterion(logits, label) - PENALTY * entropy(logits)
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        acc = (logits.argmax(1) == label).float().mean().item()
        print(f"step {step:3d}  loss {loss.item():.5f}  acc {acc:.2f}")
