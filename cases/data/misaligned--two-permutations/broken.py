"""Wine quality (three grades) from a dozen lab values, everything in two tensors."""
import torch
from torch import nn


def cellar(n):
    grade = torch.randint(0, 3, (n,))
    lab = torch.randn(n, 12) + 0.9 * nn.functional.one_hot(grade, 12)
    return lab, grade


def train(lab, grade, epochs=5, size=32):
    model = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(epochs):
        total = 0.0
        for i in range(0, len(lab), size):
            out = model(lab[i:i + size])
            loss = nn.functional.cross_entropy(out, grade[i:i + size])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total:.3f}")
    return model


torch.manual_seed(30)
lab, grade = cellar(640)
lab = lab[torch.randperm(len(lab))]
grade = grade[torch.randperm(len(grade))]  # ORIGIN
model = train(lab, grade)
x, y = cellar(200)
print("fresh bottles:", (model(x).argmax(1) == y).float().mean().item())
