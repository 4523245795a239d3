# Fine-tuning with an L2 pull towards the pretrained weights (L2-SP).
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(17)


def pretrained():
    net = nn.Sequential(nn.Linear(6, 10), nn.Sigmoid(), nn.Linear(10, 1))
    return net, [p.detach().clone() + 0.01 for p in net.parameters()]


def l2_sp(net, anchors):
    return sum(((p - a) ** 2).sum() for p, a in zip(net.parameters(), anchors))


def stream(n):
    for _ in range(n):
        x = torch.randn(16, 6)
        yield x, (x[:, :2].prod(1, keepdim=True) > 0).float()


net, anchors = pretrained()
opt = torch.optim.SGD(net.parameters(), lr=0.05)
pull = 1e-3 * l2_sp(net, anchors)  # ORIGIN
losses, problems = [], []
for x, y in stream(20):
    loss = F.binary_cross_entropy_with_logits(net(x), y) + pull
    opt.zero_grad()
    try:
        loss.backward()
    except RuntimeError as e:
        problems.append(e)
        continue
    opt.step()
    losses.append(loss.item())

print(f"{len(losses)} good steps, {len(problems)} bad ones")
if problems:
    print("last problem:", problems[-1])
