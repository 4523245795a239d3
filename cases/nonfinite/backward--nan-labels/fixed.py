import torch
from torch.utils.data import DataLoader

from assays import ASSAYS, AssayTable
from model import MultiTaskNet


def masked_mse(pred, target):
    known = ~torch.isnan(target)
    return ((pred[known] - target[known]) ** 2).sum() / known.sum()


def run(epochs=4):
    torch.manual_seed(2)
    table = AssayTable(n=160, seed=1)
    loader = DataLoader(table, batch_size=20, shuffle=True, generator=torch.Generator().manual_seed(0))
    net = MultiTaskNet(table.n_features, len(ASSAYS))
    opt = torch.optim.RMSprop(net.parameters(), lr=3e-3)
    for epoch in range(epochs):
        seen = []
        for fingerprint, activity in loader:
            loss = masked_mse(net(fingerprint), activity)
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen.append(loss.item())
        print(f"epoch {epoch}: first {seen[0]:.4f} last {seen[-1]:.4f}")


if __name__ == "__main__":
    run()
