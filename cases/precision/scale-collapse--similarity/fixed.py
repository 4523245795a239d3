"""float16 autocast with a GradScaler on the CPU: the energy term overflows."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(64, 128)
        self.fc2 = nn.Linear(128, 64)
        self.gain = 30.0

    def forward(self, x):
        h = torch.relu(self.fc1(x))
        scores = h @ h.t() / h.shape[1]
        return self.fc2(h), scores


def spread_penalty(scores):
    off = scores - torch.diag(scores.diagonal())
    return (off / scores.shape[0]).pow(2).mean()


x = 4 * torch.randn(512, 64)
target = x.roll(1, dims=1)
loader = DataLoader(TensorDataset(x, target), batch_size=64, shuffle=True, drop_last=True)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

for epoch in range(4):
    for xb, yb in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            pred, scores = model(xb)
            loss = nn.functional.mse_loss(pred.float(), yb) + 1e-6 * spread_penalty(scores)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
    print(epoch, loss.item(), "scale", scaler.get_scale())
