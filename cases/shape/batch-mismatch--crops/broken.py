"""Textures: each photograph is cut into four pieces that are classified one by one."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(44)
kind = torch.randint(0, 3, (120,))
across = torch.arange(16).float()
stripes = torch.sin(across * (0.4 + 0.5 * kind[:, None].float()))
photographs = stripes[:, None, None, :].expand(-1, 1, 16, -1) + 0.2 * torch.randn(120, 1, 16, 16)


class Cutting:
    """takes the pieces of all photographs of a batch"""

    def __init__(self, size):
        self.size = size

    def __call__(self, samples):
        pieces = []
        for photograph, _ in samples:
            rows = photograph.unfold(1, self.size, self.size).unfold(2, self.size, self.size)
            pieces.append(rows.reshape(-1, 1, self.size, self.size))
        return {"pieces": torch.cat(pieces), "kind": torch.stack([label for _, label in samples])}  # ORIGIN


loader = DataLoader(TensorDataset(photographs, kind), batch_size=12, shuffle=True, collate_fn=Cutting(8))
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for epoch in range(3):
    for batch in loader:
        loss = nn.functional.cross_entropy(net(batch["pieces"]), batch["kind"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
