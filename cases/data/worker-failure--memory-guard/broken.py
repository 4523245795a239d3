import torch
import torch.nn as nn
from torch.utils.data import DataLoader

from scans_broken import ScanFolder, pad_batch


class ScanNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 10, 5, padding=2)
        self.head = nn.Linear(10, 1)

    def forward(self, x, mask):
        h = torch.relu(self.conv(x.unsqueeze(1))) * mask.unsqueeze(1)
        return self.head(h.sum(-1) / mask.sum(-1, keepdim=True)).squeeze(-1)


def train_one_epoch(net, loader, opt):
    total = 0.0
    for batch in loader:
        opt.zero_grad()
        logits = net(batch["scan"], batch["mask"])
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch["finding"])
        loss.backward()
        opt.step()
        total += loss.item()
    return total / len(loader)


if __name__ == "__main__":
    torch.manual_seed(8)
    # prefetch kept low, the scans are big
    loader = DataLoader(
        ScanFolder(), batch_size=8, shuffle=True, num_workers=2, prefetch_factor=1, collate_fn=pad_batch
    )
    net = ScanNet()
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    for epoch in range(3):
        print(f"epoch {epoch}: {train_one_epoch(net, loader, opt):.4f}")
