import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class LeakyScan(nn.Module):
    """h[t] = a h[t-1] + B u[t], and a reading of h for each t."""

    def __init__(self, width, state=12):
        super().__init__()
        self.decay = nn.Parameter(torch.linspace(-2, 2, state))
        self.write, self.read = nn.Linear(width, state), nn.Linear(state, width)

    def forward(self, u):
        a = torch.sigmoid(self.decay)
        h = u.new_zeros(u.shape[0], len(a))
        out = []
        for u_t in u.unbind(1):
            h = a * h + self.write(u_t)
            out.append(self.read(h))
        return torch.stack(out, dim=1)


class Tagger(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.lift, self.scan, self.head = nn.Linear(3, width), LeakyScan(width), nn.Linear(width, 2)

    def forward(self, x):
        h = self.lift(x)
        return self.head(torch.relu(h + self.scan(h)))


torch.manual_seed(0)
x = torch.randn(160, 14, 3)
y = (x[..., 0].cumsum(1) > 0).long()
model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(2):
    for xb, yb in DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True):
        loss = nn.functional.cross_entropy(model(xb).flatten(0, 1), yb.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
