"""SimSiam: the target branch is detached, and the loss is a negative cosine, so it runs from about 0 towards -1."""
import torch
from torch import nn
from torch.nn.functional import cosine_similarity


class SimSiam(nn.Module):
    def __init__(self, dim_in=24, dim=32, bottleneck=8):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(dim_in, dim, bias=False), nn.BatchNorm1d(dim), nn.ReLU(inplace=True),
            nn.Linear(dim, dim, bias=False), nn.BatchNorm1d(dim, affine=False),
        )
        self.predictor = nn.Sequential(
            nn.Linear(dim, bottleneck, bias=False), nn.BatchNorm1d(bottleneck), nn.ReLU(inplace=True), nn.Linear(bottleneck, dim),
        )

    def forward(self, a, b):
        za, zb = self.encoder(a), self.encoder(b)
        return self.predictor(za), self.predictor(zb), za.detach(), zb.detach()


def view(x):
    return x * (torch.rand(len(x), 1) * 0.4 + 0.8) + 0.3 * torch.randn_like(x)


torch.manual_seed(21)
centres = torch.randn(12, 24)
model = SimSiam()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
for step in range(80):
    x = centres[torch.randint(12, (64,))] + 0.3 * torch.randn(64, 24)
    p1, p2, z1, z2 = model(view(x), view(x))
    loss = -0.5 * (cosine_similarity(p1, z2, dim=-1).mean() + cosine_similarity(p2, z1, dim=-1).mean())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 16 == 0 or step == 79:
        spread = nn.functional.normalize(z1, dim=1).std(0).mean().item()
        print(f"{step:3d}  loss {loss.item():+.4f}  spread {spread:.4f} (1/sqrt(d) = {32 ** -0.5:.4f})")

# kNN check: same cluster next to each other
model.eval()
with torch.no_grad():
    label = torch.arange(240) % 12
    z = nn.functional.normalize(model.encoder(centres[label] + 0.3 * torch.randn(240, 24)), dim=1)
    sim = (z @ z.T).fill_diagonal_(-2)
    print("1-NN purity %.2f" % (label[sim.argmax(1)] == label).float().mean())
