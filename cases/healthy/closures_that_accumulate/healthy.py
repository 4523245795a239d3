"""A trainer of one's own that gives every step a closure, as Lightning does: of two batches the first is accumulated outside of
it; a GAN's players have stepped by hand before, with a closure that does nothing. One of the optimizers is not torch's."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Signum(torch.optim.Optimizer):
    """Follows the sign of a momentum."""

    def __init__(self, params, lr=1e-3, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        state = self.state[weight].setdefault("average", torch.zeros_like(weight))
                        state.lerp_(weight.grad, 1 - group["momentum"])
                        weight.sub_(state.sign(), alpha=group["lr"])
        return loss


class Trainer:
    def __init__(self, every):
        self.every = every

    def fit(self, model, optimizer, loader, epochs):
        for _ in range(epochs):
            for number, (x, y) in enumerate(loader):

                def closure(x=x, y=y, number=number):
                    loss = nn.functional.cross_entropy(model(x), y) / self.every
                    if number % self.every == 0:
                        optimizer.zero_grad()
                    loss.backward()
                    return loss

                if (number + 1) % self.every == 0:
                    optimizer.step(closure)
                else:
                    closure()


def play(generator, judge, real, steps, kind):
    players = [kind(each.parameters(), lr=2e-3) for each in (generator, judge)]
    score = nn.functional.binary_cross_entropy_with_logits
    for _ in range(steps):
        rows = real[torch.randint(len(real), (32,))]
        fake = generator(torch.randn(32, 4))
        players[1].zero_grad()
        loss = score(judge(rows), torch.ones(32, 1)) + score(judge(fake.detach()), torch.zeros(32, 1))
        loss.backward()
        players[1].step(lambda: None)
        players[0].zero_grad()
        score(judge(fake), torch.ones(32, 1)).backward()
        players[0].step(lambda: None)


real = torch.randn(256, 2) * 0.2 + 1
for kind in (torch.optim.Adam, Signum):
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
    judge = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
    play(generator, judge, real, 20, kind)
    print(kind.__name__, generator(torch.zeros(1, 4)).tolist())

x = torch.randn(240, 6)
loader = DataLoader(TensorDataset(x, x[:, :3].argmax(1)), batch_size=20, shuffle=True)
for kind in (torch.optim.AdamW, Signum):
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 3))
    Trainer(every=2).fit(model, kind(model.parameters(), lr=3e-3), loader, epochs=4)
    print(kind.__name__, (model(x).argmax(1) == x[:, :3].argmax(1)).float().mean().item())
