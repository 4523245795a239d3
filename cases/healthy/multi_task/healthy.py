"""Two heads on one trunk. The lab value is missing (NaN) for most patients; in some batches nobody has one."""
import torch
from torch import nn, optim
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 32), nn.Tanh())
        self.heads = nn.ModuleDict({"diagnosis": nn.Linear(32, 3), "lab": nn.Linear(32, 1)})

    def forward(self, x, rows_with_lab):
        h = self.trunk(x)
        lab = self.heads["lab"](h[rows_with_lab]).squeeze(-1) if rows_with_lab.any() else None
        return self.heads["diagnosis"](h), lab


def patients(n):
    x = torch.randn(n, 6)
    diagnosis = (x[:, :3] + 0.3 * torch.randn(n, 3)).argmax(1)
    lab = x[:, 3] * 1.5 - x[:, 4]
    lab[torch.rand(n) < 0.85] = float("nan")
    return TensorDataset(x, diagnosis, lab)


def train(model, loader, epochs):
    opt = optim.AdamW(model.parameters(), lr=1e-2)
    weights = {"diagnosis": 1.0, "lab": 0.5}
    for epoch in range(epochs):
        log = {"diagnosis": [], "lab": []}
        for x, diagnosis, lab in loader:
            known = ~lab.isnan()
            logits, lab_pred = model(x, known)
            losses = {"diagnosis": F.cross_entropy(logits, diagnosis)}
            if lab_pred is not None:                     # otherwise the lab head sits this batch out
                losses["lab"] = F.mse_loss(lab_pred, lab[known])
            opt.zero_grad(set_to_none=True)
            sum(weights[k] * v for k, v in losses.items()).backward()
            opt.step()
            for k, v in losses.items():
                log[k].append(v.item())
        yield epoch, {k: sum(v) / len(v) for k, v in log.items()}, len(log["diagnosis"]) - len(log["lab"])


if __name__ == "__main__":
    torch.manual_seed(70)
    loader = DataLoader(patients(240), batch_size=8, shuffle=True)
    for epoch, means, skipped in train(TwoHeads(), loader, epochs=5):
        print(epoch, {k: round(v, 3) for k, v in means.items()}, f"batches without lab values: {skipped}")
