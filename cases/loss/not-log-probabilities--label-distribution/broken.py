import torch
from torch import nn

# Age estimation by label distribution learning: the target is a small gaussian over age bins.
torch.manual_seed(17)
BINS = torch.linspace(0, 1, 12)


def soft_labels(age, sigma=0.08):
    d = torch.exp(-0.5 * ((BINS - age.unsqueeze(1)) / sigma) ** 2)
    return d / d.sum(dim=1, keepdim=True)


faces = torch.randn(480, 10)
mix = torch.randn(10) / 10 ** 0.5
age = torch.sigmoid(1.5 * (faces @ mix))
targets = soft_labels(age)

backbone = nn.Sequential(nn.Linear(10, 40), nn.GELU())
head = nn.Linear(40, len(BINS))
params = [*backbone.parameters(), *head.parameters()]
opt = torch.optim.Adam(params, lr=1e-2)
kl = nn.KLDivLoss(reduction="batchmean")

for epoch in range(6):
    run = []
    for idx in torch.randperm(480).chunk(10):
        pred = head(backbone(faces[idx])).softmax(dim=1)  # ORIGIN
        loss = kl(pred, targets[idx])
        opt.zero_grad()
        loss.backward()
        opt.step()
        run.append(loss.item())
    print(f"epoch {epoch}  kl {sum(run) / len(run):.4f}")
