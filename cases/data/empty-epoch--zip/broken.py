"""Semi-supervised: labelled and unlabelled batches side by side, consistency on the unlabelled ones."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(61)


def rings(n):
    y = torch.randint(0, 2, (n,))
    r = 0.6 + 0.9 * y + 0.15 * torch.randn(n)
    a = 6.2832 * torch.rand(n)
    return torch.stack([r * a.cos(), r * a.sin()], dim=1), y


x_lab, y_lab = rings(240)
x_unl, _ = rings(720)
x_test, y_test = rings(300)

labelled = DataLoader(TensorDataset(x_lab, y_lab), batch_size=8, shuffle=True)
unlabelled = DataLoader(TensorDataset(x_unl), batch_size=24, shuffle=True)
paired = zip(labelled, unlabelled)  # ORIGIN

net = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=3e-3)

for epoch in range(6):
    steps, sup, con = 0, 0.0, 0.0
    for (x, y), (u,) in paired:
        supervised = F.cross_entropy(net(x), y)
        with torch.no_grad():
            target = net(u).softmax(-1)
        consistency = F.mse_loss(net(u + 0.05 * torch.randn_like(u)).softmax(-1), target)
        loss = supervised + 0.5 * consistency
        opt.zero_grad()
        loss.backward()
        opt.step()
        steps += 1
        sup += supervised.item()
        con += consistency.item()
    with torch.no_grad():
        acc = (net(x_test).argmax(1) == y_test).float().mean().item()
    print(f"epoch {epoch}: supervised {sup:.3f} consistency {con:.4f} test accuracy {acc:.3f}")
