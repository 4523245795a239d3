"""Patient triage: lab values that were not ordered arrive as NaN; the model adds an indicator and imputes."""
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset


class Admissions(Dataset):
    def __init__(self, n: int, seed: int) -> None:
        g = torch.Generator().manual_seed(seed)
        labs = torch.randn(n, 6, generator=g)
        self.urgent = (labs[:, 0] + labs[:, 1] - labs[:, 4] > 0.3).float()
        ordered = torch.rand(n, 6, generator=g) > 0.25
        self.labs = torch.where(ordered, labs, torch.tensor(float("nan")))

    def __len__(self) -> int:
        return len(self.urgent)

    def __getitem__(self, i: int):
        return self.labs[i], self.urgent[i]


class Triage(nn.Module):
    def __init__(self, n_labs: int) -> None:
        super().__init__()
        self.fill = nn.Parameter(torch.zeros(n_labs))
        self.net = nn.Sequential(nn.Linear(2 * n_labs, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 1))

    def forward(self, labs: Tensor) -> Tensor:
        missing = torch.isnan(labs).float()
        clean = torch.nan_to_num(labs, nan=0.0) + missing * self.fill
        return self.net(torch.cat([clean, missing], dim=1)).squeeze(1)


def main() -> None:
    torch.manual_seed(8)
    model = Triage(6)
    opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(6):
        model.train()
        for labs, urgent in DataLoader(Admissions(320, seed=1), batch_size=32, shuffle=True):
            loss = bce(model(labs), urgent)
            opt.zero_grad()
            loss.backward()
            opt.step()
        model.eval()
        with torch.no_grad():
            labs, urgent = Admissions(200, seed=2)[:]
            hit = ((model(labs) > 0).float() == urgent).float().mean()
        print(f"epoch {epoch} loss {loss.item():.4f} accuracy {hit.item():.3f}")


if __name__ == "__main__":
    main()
