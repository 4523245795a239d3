# Which of three machines made the sound? Ten bands of a spectrum each.
import random

import torch
import torch.nn.functional as F


def record(machine, count):
    g = torch.Generator().manual_seed(machine)
    bands = torch.randn(count, 10, generator=g) * 0.5
    bands[:, 3 * machine : 3 * machine + 3] += 1.5
    return bands


def in_any_order(things):
    places = random.sample(range(len(things)), len(things))
    return [things[each] for each in places]


def collect(count):
    bands, machines = [], []
    for machine in range(3):
        for each in record(machine, count):
            bands.append(each)
            machines.append(machine)
    bands = in_any_order(bands)
    machines = in_any_order(machines)  # ORIGIN
    held_out = count // 2
    return (bands[held_out:], machines[held_out:]), (bands[:held_out], machines[:held_out])


random.seed(3)
torch.manual_seed(3)
(bands, machines), (test_bands, test_machines) = collect(160)
bands, test_bands = torch.stack(bands), torch.stack(test_bands)
machines, test_machines = torch.tensor(machines), torch.tensor(test_machines)
weight = torch.zeros(10, 3, requires_grad=True)
bias = torch.zeros(3, requires_grad=True)
optimizer = torch.optim.SGD([weight, bias], lr=0.3)
for epoch in range(4):
    for rows in torch.arange(len(bands)).split(32):
        optimizer.zero_grad()
        loss = F.cross_entropy(bands[rows] @ weight + bias, machines[rows])
        loss.backward()
        optimizer.step()
    right = ((test_bands @ weight + bias).argmax(1) == test_machines).float().mean()
    print(f"{epoch}: {loss.item():.3f}, {right:.2f} right")
