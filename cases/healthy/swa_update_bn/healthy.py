"""Stochastic weight averaging: averaged model, its own lr, and batch-norm statistics recomputed in train mode without gradients."""
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset


def rings(n):
    y = torch.randint(0, 3, (n,))
    r = 0.4 + 0.5 * y + 0.08 * torch.randn(n)
    a = torch.rand(n) * 6.2832
    return torch.stack([r * a.cos(), r * a.sin()], 1), y


@torch.no_grad()
def evaluate(model, x, y):
    model.eval()
    logits = model(x)
    return nn.functional.cross_entropy(logits, y).item(), (logits.argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(70)
    loader = DataLoader(TensorDataset(*rings(300)), batch_size=50, shuffle=True)
    test = rings(300)
    net = nn.Sequential(nn.Linear(2, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=8)
    averaged = AveragedModel(net)
    swa_lr = SWALR(opt, swa_lr=0.05, anneal_epochs=2)

    for epoch in range(14):
        net.train()
        seen = 0.0
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += loss.item() / len(loader)
        if epoch >= 8:
            averaged.update_parameters(net)
            swa_lr.step()
        else:
            cosine.step()
        if epoch % 4 == 1:
            print(f"epoch {epoch:2d} lr {opt.param_groups[0]['lr']:.3f} loss {seen:.3f}")

    update_bn(loader, averaged)
    print("live     loss %.3f accuracy %.3f" % evaluate(net, *test))
    print("averaged loss %.3f accuracy %.3f" % evaluate(averaged, *test))


main()
