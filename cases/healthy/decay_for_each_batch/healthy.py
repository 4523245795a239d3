"""Four ways to let a rate decay with every batch, each over the whole run, with as many epochs as there are decades or waves."""
import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, MultiStepLR, StepLR
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 8


def schedules(optimizer, batches):
    total = EPOCHS * batches
    return {
        "four decades": lambda: ExponentialLR(optimizer(), gamma=1e-4 ** (1 / total)),
        "halved each epoch": lambda: StepLR(optimizer(), step_size=batches, gamma=0.5),
        "late drops": lambda: MultiStepLR(optimizer(), milestones=[total // 2, 3 * total // 4]),
        "a wave of four epochs": lambda: CosineAnnealingLR(optimizer(), T_max=2 * batches),
    }


def fit(model, loader, scheduler):
    for _ in range(EPOCHS):
        for x, y in loader:
            scheduler.optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            scheduler.optimizer.step()
            scheduler.step()
    return loss.item()


torch.manual_seed(5)
x = torch.randn(160, 5)
loader = DataLoader(TensorDataset(x, torch.sin(x.sum(1, keepdim=True))), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(5, 32), nn.Tanh(), nn.Linear(32, 1))
start = {name: each.clone() for name, each in model.state_dict().items()}
for name, build in schedules(lambda: torch.optim.Adam(model.parameters(), lr=0.02), len(loader)).items():
    model.load_state_dict(start)
    scheduler = build()
    print(f"{name:22s} loss {fit(model, loader, scheduler):.4f}  last lr {scheduler.get_last_lr()[0]:.1e}")
