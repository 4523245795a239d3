"""Three kinds of soil from their spectra; small enough to keep in memory and cut by hand."""
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(4)
torch.manual_seed(4)

BANDS, PER_SOIL = 12, 96
clay = rng.normal(0.4, 0.6, (PER_SOIL, BANDS))
loam = rng.normal(-0.3, 0.6, (PER_SOIL, BANDS))
sand = rng.normal(0.0, 0.6, (PER_SOIL, BANDS)) + np.linspace(-1, 1, BANDS)
spectra = torch.tensor(np.concatenate([clay, loam, sand]), dtype=torch.float32)
soils = torch.arange(3).repeat_interleave(PER_SOIL)

model = nn.Sequential(nn.Linear(BANDS, 24), nn.ReLU(), nn.Linear(24, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
batch_size = 16

for epoch in range(4):
    running = 0.0
    order = torch.randperm(len(spectra))
    for start in range(0, len(spectra), batch_size):
        x = spectra[order[start:start + batch_size]]
        y = soils[order[start:start + batch_size]]
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    with torch.no_grad():
        hits = (model(spectra).argmax(1) == soils).float().mean().item()
    print(f"epoch {epoch}: loss {running / 18:.3f}, accuracy {hits:.3f}")
