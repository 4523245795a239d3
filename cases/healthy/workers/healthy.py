import torch
from torch import nn
from torch.utils.data import DataLoader

from ragged import Clouds, pad_clouds


class DeepSet(nn.Module):
    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(2, 24), nn.ReLU(), nn.Linear(24, 24), nn.ReLU())
        self.rho = nn.Linear(48, 2)

    def forward(self, points, valid):
        h = self.phi(points)
        top = h.masked_fill(~valid.unsqueeze(-1), float("-inf")).amax(1)
        mean = (h * valid.unsqueeze(-1)).sum(1) / valid.sum(1, keepdim=True)
        return self.rho(torch.cat([top, mean], dim=1))


def main():
    torch.manual_seed(130)
    loader = DataLoader(Clouds(150), batch_size=16, shuffle=True, num_workers=2, collate_fn=pad_clouds, persistent_workers=True)
    net = DeepSet()
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(4):
        seen, right, widths = 0, 0, set()
        for b in loader:
            logits = net(b["points"], b["valid"])
            loss = nn.functional.cross_entropy(logits, b["label"])
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += len(logits)
            right += (logits.argmax(1) == b["label"]).sum().item()
            widths.add(b["points"].size(1))
        print(f"epoch {epoch}: {seen} clouds, accuracy {right / seen:.2f}, padded lengths {sorted(widths)}")


if __name__ == "__main__":
    main()
