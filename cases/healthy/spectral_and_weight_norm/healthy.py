# parametrizations: the optimizer's parameters are not the tensors the layers multiply with
import torch
from torch import nn
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm


class Symmetric(nn.Module):
    def forward(self, W):
        return W.triu() + W.triu(1).transpose(-1, -2)


class LipschitzNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = spectral_norm(nn.Linear(4, 32))
        self.b = weight_norm(nn.Linear(32, 32))
        self.c = orthogonal(nn.Linear(32, 16))
        self.d = nn.Linear(16, 16)
        parametrize.register_parametrization(self.d, "weight", Symmetric())
        self.e = nn.Linear(16, 1)

    def forward(self, x):
        for layer in (self.a, self.b, self.c, self.d):
            x = nn.functional.elu(layer(x))
        return self.e(x)


torch.manual_seed(39)
net = LipschitzNet()
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(60):
    x = torch.randn(64, 4)
    y = torch.tanh(x[:, :1] * x[:, 1:2]) + 0.5 * x[:, 2:3]
    with parametrize.cached():
        loss = nn.functional.mse_loss(net(x), y)
        opt.zero_grad()
        loss.backward()
    opt.step()
    if step % 15 == 0 or step == 59:
        print(f"{step:2d} mse {loss.item():.4f}")

net.eval()
with torch.no_grad():
    print("top singular value of a: %.3f" % torch.linalg.matrix_norm(net.a.weight, 2))
    print("c orthogonal:", torch.allclose(net.c.weight @ net.c.weight.T, torch.eye(16), atol=1e-4))
    print("d symmetric:", torch.equal(net.d.weight, net.d.weight.T))
