import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class BatchWhiten(nn.Module):
    """Decorrelates the features of a batch with the Cholesky factor of its covariance."""

    def __init__(self, dim, eps=1e-2):
        super().__init__()
        self.eps = eps
        self.register_buffer("eye", torch.eye(dim))

    def forward(self, x):
        centred = x - x.mean(dim=0)
        cov = centred.T @ centred / (x.shape[0] - 1)  # ORIGIN
        chol = torch.linalg.cholesky(cov + self.eps * self.eye)
        return torch.linalg.solve_triangular(chol, centred.T, upper=False).T


class Probe(nn.Module):
    def __init__(self, d_in, d_hidden, n_classes):
        super().__init__()
        self.project = nn.Linear(d_in, d_hidden)
        self.whiten = BatchWhiten(d_hidden)
        self.classify = nn.Linear(d_hidden, n_classes)

    def forward(self, x):
        return self.classify(self.whiten(self.project(x)))


def train_epoch(model, loader, opt, ce):
    good = failed = 0
    for x, y in loader:
        try:
            loss = ce(model(x), y)
        except torch.linalg.LinAlgError as err:
            print("  skipping a batch:", str(err)[:70])
            failed += 1
            continue
        opt.zero_grad()
        loss.backward()
        opt.step()
        good += 1
    return good, failed, loss.item()


torch.manual_seed(18)
features = torch.randn(161, 10)
classes = (features[:, :3].sum(1) > 0).long()
loader = DataLoader(TensorDataset(features, classes), batch_size=20, shuffle=True)
model = Probe(10, 6, 2)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(2):
    good, failed, last = train_epoch(model, loader, opt, nn.CrossEntropyLoss())
    print(f"epoch {epoch}: {good} batches, {failed} failed, loss {last:.3f}")
