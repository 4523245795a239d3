"""Demand for bicycles by the hour. No optimizer: each table of weights moves by a share of its own length."""
import torch

HOURS = 24


def start(rng):
    tables = {
        "hour": 0.1 * torch.randn(HOURS, 6, generator=rng),
        "weather": 0.1 * torch.randn(4, 6, generator=rng),
        "mix": 0.3 * torch.randn(6, generator=rng),
        "holiday": torch.full((2,), 0.5),
    }
    return {name: each.requires_grad_() for name, each in tables.items()}


def demand(tables, hour, weather, holiday):
    inner = torch.tanh(tables["hour"][hour] + tables["weather"][weather])
    shift = torch.where(holiday, tables["holiday"][1], tables["holiday"][0]) if holiday.any() else 0 * tables["holiday"].sum()
    return inner @ tables["mix"] + shift


def move(tables, share):
    with torch.no_grad():
        for table in tables.values():
            slope = table.grad.norm()
            reach = share * table.norm() / slope  # ORIGIN
            table -= reach * table.grad
            table.grad = None


def main():
    rng = torch.Generator().manual_seed(8)
    tables = start(rng)
    for day in range(900):
        hour = torch.randint(HOURS, (32,), generator=rng)
        weather = torch.randint(4, (32,), generator=rng)
        holiday = torch.rand(32, generator=rng) < 0.3 if day != 760 else torch.zeros(32, dtype=torch.bool)
        rented = torch.sin(hour / 4.0) - 0.3 * weather + 0.5 * holiday
        loss = (demand(tables, hour, weather, holiday) - rented).square().mean()
        loss.backward()
        move(tables, 0.004)
        if day % 150 == 0:
            print(f"day {day} {loss.item():.4f}")


main()
