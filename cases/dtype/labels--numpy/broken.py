"""Iris-like table: four measurements and a species id per row."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def collect(per_species=30):
    rng = np.random.default_rng(42)
    centres = np.array([[5.0, 3.4, 1.5, 0.2], [5.9, 2.8, 4.3, 1.3], [6.6, 3.0, 5.6, 2.0]])
    species = np.repeat(np.arange(3), per_species)
    measured = centres[species] + 0.3 * rng.standard_normal((len(species), 4))
    table = np.column_stack([measured, species])  # ORIGIN
    rng.shuffle(table)
    return table


def to_tensors(table):
    features = torch.from_numpy(table[:, :4].astype(np.float32))
    species = torch.from_numpy(table[:, 4])
    return TensorDataset(features, species)


def fit(dataset, epochs=5):
    torch.manual_seed(42)
    model = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 3))
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(dataset, batch_size=15)
    for epoch in range(epochs):
        running = 0.0
        for features, species in loader:
            optimizer.zero_grad()
            output = model(features)
            loss = criterion(output, species)
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch + 1}: {running / len(loader):.3f}")
    return model


fit(to_tensors(collect()))
