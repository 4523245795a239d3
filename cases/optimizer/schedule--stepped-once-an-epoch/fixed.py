import torch
import torch.nn.functional as F


class Plant:
    """Next state of a small control loop from state and command."""

    def __init__(self, n=600):
        g = torch.Generator().manual_seed(6)
        self.now = torch.randn(n, 4, generator=g)
        self.command = torch.randn(n, 2, generator=g)
        mix = torch.randn(6, 4, generator=g) / 2
        self.next = torch.tanh(torch.cat([self.now, self.command], 1) @ mix)

    def batches(self, size):
        for start in range(0, len(self.now), size):
            part = slice(start, start + size)
            yield torch.cat([self.now[part], self.command[part]], 1), self.next[part]


def train(plant, epochs=10, size=50):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 40), torch.nn.GELU(), torch.nn.Linear(40, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    updates = epochs * len(plant.now) // size
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=updates)
    for epoch in range(epochs):
        for given, wanted in plant.batches(size):
            loss = F.smooth_l1_loss(model(given), wanted)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"epoch {epoch}  loss {loss.item():.5f}  lr {schedule.get_last_lr()[0]:.2e}")


train(Plant())
