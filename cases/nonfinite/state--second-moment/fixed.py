"""Online correction of a weigh-bridge: true weight from four load cells."""
import torch
from torch import nn

GAIN = torch.tensor([0.9, 1.1, 1.05, 0.95])


def read_packets(n, g):
    """Yield (cells, weight). One packet in the log has its clock where the third cell should be."""
    for k in range(n):
        cells = torch.rand(16, 4, generator=g) * 4 - 2
        weight = cells @ GAIN + 0.01 * torch.randn(16, generator=g)
        if k == 9:
            cells[5, 2] = 1718000000123456789
        yield cells.clamp(-10, 10), weight


torch.manual_seed(0)
bridge = nn.Linear(4, 1)
opt = torch.optim.Adam(bridge.parameters(), lr=0.02)
running = None
for k, (cells, weight) in enumerate(read_packets(300, torch.Generator().manual_seed(55))):
    loss = nn.functional.mse_loss(bridge(cells).squeeze(1), weight)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if k != 9:
        running = loss.item() if running is None else 0.9 * running + 0.1 * loss.item()
    if k % 50 == 0:
        print(f"packet {k:3d} running error {running:.4f} gains {[round(w, 3) for w in bridge.weight[0].tolist()]}")
print("gain error", (bridge.weight[0] - GAIN).abs().max().item())
