"""Predicts the next stop of delivery vans from the stops so far."""

import torch
from torch import nn

STOPS, WIDTH, LENGTH = 30, 32, 20


def mask_of_the_future(length):
    places = torch.arange(length)
    return places.unsqueeze(0) > places.unsqueeze(1) + 1  # ORIGIN


class RouteModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.stop = nn.Embedding(STOPS, WIDTH)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, STOPS)

    def forward(self, route):
        length = route.size(1)
        hidden = self.stop(route) + self.place[:length]
        return self.out(self.layers(hidden, mask=mask_of_the_future(length)))


def routes(count, generator):
    begin = torch.randint(0, STOPS, (count, 1), generator=generator)
    jumps = torch.randint(1, 4, (count, LENGTH), generator=generator)
    return torch.cat([begin, begin + jumps.cumsum(1)], 1) % STOPS


def main():
    torch.manual_seed(2)
    generator = torch.Generator().manual_seed(2)
    model = RouteModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(30):
        route = routes(24, generator)
        scores = model(route[:, :-1])
        loss = nn.functional.cross_entropy(scores.reshape(-1, STOPS), route[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.3f}")


main()
