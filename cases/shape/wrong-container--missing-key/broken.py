import os
import tempfile

import torch
from torch import nn

torch.manual_seed(0)
folder = tempfile.mkdtemp()


def save(path, encoder, head, optimizer, epoch):
    torch.save({"encoder": encoder.state_dict(), "epoch": 40}, os.path.join(path, "pretrained.pt"))
    torch.save({"head": head.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, os.path.join(path, "last.pt"))


def resume(path, encoder, head, optimizer):
    pretrained = torch.load(os.path.join(path, "pretrained.pt"))
    encoder.load_state_dict(pretrained["encoder"])
    last = torch.load(os.path.join(path, "last.pt"))
    head.load_state_dict(last["head"])
    optimizer.load_state_dict(pretrained["optimizer"])  # ORIGIN
    return last["epoch"] + 1


encoder = nn.Sequential(nn.Linear(6, 16), nn.ReLU())
head = nn.Linear(16, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=1e-2)
x, y = torch.randn(64, 6), torch.randint(0, 3, (64,))


def train(first, last):
    for epoch in range(first, last):
        loss = nn.functional.cross_entropy(head(encoder(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        save(folder, encoder, head, optimizer, epoch)
    print(f"{loss.item():.3f}")


train(0, 5)
train(resume(folder, encoder, head, optimizer), 10)
