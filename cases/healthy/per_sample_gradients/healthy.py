"""Gradients of single samples under an optimizer: their norms decide which samples are drawn; a slope of zero is expected."""
import torch
from torch.func import functional_call, grad, jacrev, vmap

torch.manual_seed(6)
net = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Softplus(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
depth = torch.rand(200, 5)
yield_ = (depth * torch.tensor([1.0, -0.5, 0.3, 0.0, 0.2])).sum(dim=1, keepdim=True)


def error_of(weights, x, y):
    return (functional_call(net, weights, (x,)) - y).square().sum()


share = torch.ones(200)
for step in range(80):
    rows = torch.multinomial(share, 32)
    loss = (net(depth[rows]) - yield_[rows]).square().mean()
    slope = vmap(jacrev(lambda x: net(x).squeeze(0)))(depth[rows])
    loss = loss + 0.01 * slope[:, 3].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        weights = {name: each.detach() for name, each in net.named_parameters()}
        each = vmap(grad(error_of), in_dims=(None, 0, 0))(weights, depth, yield_)
        size = torch.cat([one.flatten(1) for one in each.values()], dim=1).norm(dim=1)
        share = size / size.mean() + 0.1
        print(f"step {step} loss {loss.item():.4f} most {share.max():.2f}")
