"""Where are the beacons? Their places are found from distances that a robot measured on its way round the hall."""

import torch
from torch import nn

SIZE = 10.0


class Beacons(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.places = nn.Parameter(torch.full((count, 2), SIZE / 2) + torch.randn(count, 2))
        self.offset = nn.Parameter(torch.zeros(count))

    def forward(self, robot):
        gap = robot[:, None] - self.places[None]
        return gap.square().sum(-1).add(1e-6).sqrt() + self.offset


def drive(points):
    angle = torch.linspace(0, 6.0, points)
    radius = SIZE * (0.25 + 0.1 * torch.sin(3 * angle))
    return SIZE / 2 + torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


def locate(hall, robot, measured, rounds=10):
    solver = torch.optim.LBFGS(hall.parameters(), lr=0.3, max_iter=8, history_size=12, line_search_fn="strong_wolfe")
    criterion = nn.HuberLoss(delta=0.5)
    evaluations = 0

    def closure():
        nonlocal evaluations
        evaluations += 1
        loss = criterion(hall(robot), measured)
        loss.backward()  # ORIGIN
        return loss

    for number in range(1, rounds + 1):
        solver.step(closure)
        with torch.no_grad():
            left = criterion(hall(robot), measured).item()
        print(f"round {number:2d}: {left:.6f} left after {evaluations} evaluations")


def main():
    torch.manual_seed(4)
    truth = torch.tensor([[0.5, 1.0], [9.5, 0.8], [9.0, 9.2], [1.2, 8.7], [5.0, 9.8]])
    robot = drive(60)
    measured = (robot[:, None] - truth[None]).norm(dim=-1) + 0.02 * torch.randn(60, len(truth))
    hall = Beacons(len(truth))
    locate(hall, robot, measured)
    miss = (hall.places.detach() - truth).norm(dim=1)
    print("metres off:", ", ".join(f"{each:.2f}" for each in miss.tolist()))


if __name__ == "__main__":
    main()
