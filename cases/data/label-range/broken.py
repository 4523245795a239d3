import torch
from torch import nn

torch.manual_seed(21)

# rec_<speaker>_<take>
FILES = [f"rec_{speaker}_{take:02d}" for take in range(12) for speaker in (1, 2, 3, 4, 5)]
N_SPEAKERS = 5


def voiceprint(name):
    speaker = int(name.split("_")[1])
    return torch.randn(10) + 0.8 * torch.nn.functional.one_hot(torch.tensor(speaker), 10)


def minibatches(x, y, size):
    perm = torch.randperm(len(x))
    for chunk in perm.split(size):
        yield x[chunk], y[chunk]


prints = torch.stack([voiceprint(f) for f in FILES])
speakers = torch.tensor([int(f.split("_")[1]) for f in FILES])  # ORIGIN

model = nn.Sequential(nn.BatchNorm1d(10), nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, N_SPEAKERS))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
lossfn = nn.CrossEntropyLoss()

for epoch in range(4):
    correct = 0
    for xb, yb in minibatches(prints, speakers, 15):
        logits = model(xb)
        loss = lossfn(logits, yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        correct += (logits.argmax(1) == yb).sum().item()
    print("epoch", epoch, "accuracy", correct / len(FILES))
