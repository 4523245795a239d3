import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import TensorDataset, DataLoader

torch.manual_seed(14)

# spectra of five minerals, 80 of each
minerals = ["quartz", "calcite", "halite", "pyrite", "talc"]
spectra, targets = [], []
for k, name in enumerate(minerals):
    peak = torch.zeros(20)
    peak[3 * k + 2:3 * k + 6] = 1.5
    spectra.append(peak + torch.randn(80, 20) * 0.8)
    targets.append(torch.full((80,), k))
X = torch.cat(spectra)
X = (X - X.mean()) / X.std()
Y = torch.cat(targets)

train_dl = DataLoader(TensorDataset(X, Y), batch_size=20)  # ORIGIN

model = nn.Sequential(
    nn.Linear(20, 40),
    nn.ReLU(),
    nn.Linear(40, len(minerals)),
)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

for epoch in range(4):
    total, right = 0.0, 0
    for inputs, answers in train_dl:
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, answers)
        loss.backward()
        optimizer.step()
        total += loss.item() * inputs.size(0)
        right += (outputs.argmax(dim=1) == answers).sum().item()
    print(f"Epoch {epoch + 1}: loss={total / len(X):.4f} acc={right / len(X):.3f}")

model.eval()
with torch.no_grad():
    final = (model(X).argmax(1) == Y).float().mean().item()
print(f"accuracy after training: {final:.3f}")
