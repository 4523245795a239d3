"""Does the plant need water? Readings of a field's probes come in one by one; the model learns as they come."""
import asyncio

import torch
from torch import nn

HOURS, PROBES, AT_ONCE = 24, 4, 8


def above_coldest(day):
    return day - day.amin(1, keepdim=True)


def shares(day):
    """Of the warmth of the day, how much came in each hour?"""
    total = day.sum(1, keepdim=True)
    return day * (1 / total.clamp(min=1e-3))


def smoothed(day):
    return nn.functional.avg_pool1d(day.unsqueeze(0), 3, stride=1).squeeze(0)


def prepared(day, steps=(above_coldest, shares, smoothed)):
    for step in steps:
        day = step(day)
    return HOURS * day - 1


async def field(count, generator):
    hour = torch.arange(HOURS)
    for number in range(count):
        dry = torch.rand((), generator=generator) < 0.5
        noon = 12.0 + 3.0 * dry + torch.rand(PROBES, 1, generator=generator)
        day = 15 + 6 * torch.exp(-((hour - noon) ** 2) / (12 if dry else 30))
        day = day + 0.4 * torch.rand(PROBES, HOURS, generator=generator)
        if number == 2500:
            day[2] = 85.0  # what the probe sends when it has no contact
        await asyncio.sleep(0)
        yield day, dry.float()


async def handfuls(readings):
    kept = []
    async for day, dry in readings:
        kept.append((prepared(day), dry))
        if len(kept) == AT_ONCE:
            yield tuple(map(torch.stack, zip(*kept)))
            kept.clear()


async def learn(count):
    torch.manual_seed(2)
    net = nn.Sequential(nn.Conv1d(PROBES, 8, 5), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 18, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    smooth, number = 0.7, 0
    async for day, dry in handfuls(field(count, torch.Generator().manual_seed(2))):
        loss = nn.functional.binary_cross_entropy_with_logits(net(day).squeeze(1), dry)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smooth, number = 0.9 * smooth + 0.1 * loss.item(), number + 1
        if number % 50 == 0:
            print(f"{number} handfuls: {smooth:.3f}")


asyncio.run(learn(2800))
