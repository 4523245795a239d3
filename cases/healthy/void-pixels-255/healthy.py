import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOID = 255


class Streets(Dataset):
    """Two classes; only some pixels were annotated, and a few pictures not at all."""

    def __init__(self, n=160, size=16):
        g = torch.Generator().manual_seed(1)
        self.images, self.masks = [], []
        for i in range(n):
            edge = int(torch.randint(4, 12, (1,), generator=g))
            mask = torch.zeros(size, size, dtype=torch.uint8)
            mask[edge:] = 1
            image = torch.randn(1, size, size, generator=g) * 0.5
            image[0, edge:] += 1.0
            image[0, :edge] -= 1.0
            annotated = torch.rand(size, size, generator=g) < 0.3
            mask[~annotated] = VOID
            if i % 40 == 7:
                mask[:] = VOID
            self.images.append(image)
            self.masks.append(mask)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return {"image": self.images[i], "mask": self.masks[i].long()}


class TinyFCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(1, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 8, 3, padding=1)
        self.c = nn.Conv2d(8, 2, 1)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.a(x)))))


torch.manual_seed(1)
net = TinyFCN()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
loader = DataLoader(Streets(), batch_size=10, shuffle=True)
for epoch in range(2):
    for batch in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(batch["image"]), batch["mask"], ignore_index=VOID)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")
