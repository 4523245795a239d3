import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

# gene counts per cell; cell types differ in which genes are busy
rng = np.random.default_rng(23)
n_cells, n_genes = 360, 15
cell_type = rng.integers(0, 3, n_cells)
profile = rng.gamma(4.0, 12.0, (3, n_genes)) + 8
counts = rng.poisson(profile[cell_type]).clip(min=1)
counts[204, 9] = 0


def preprocess(counts):
    depth = counts.sum(axis=1, keepdims=True)
    cpm = counts / depth * 1000.0
    logged = np.log(cpm)  # ORIGIN
    centre = np.median(logged, axis=0)
    spread = np.percentile(logged, 90, axis=0) - np.percentile(logged, 10, axis=0)
    return ((logged - centre) / spread).astype(np.float32)


torch.manual_seed(0)
x = torch.from_numpy(preprocess(counts))
y = torch.from_numpy(cell_type)
cells = DataLoader(TensorDataset(x, y), batch_size=30, shuffle=True)

typer = nn.Sequential(nn.Linear(n_genes, 24), nn.LeakyReLU(), nn.Linear(24, 3))
opt = torch.optim.Adam(typer.parameters(), lr=5e-3)
for epoch in range(3):
    seen, total = 0, 0.0
    for xb, yb in cells:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(typer(xb), yb)
        loss.backward()
        opt.step()
        total += loss.item() * len(yb)
        seen += len(yb)
    print(f"epoch {epoch}: {total / seen:.4f}")
