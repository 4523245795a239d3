"""Noise in machine halls: a monitor collects statistics of each layer in a dict of lists, in training and in tests."""
import torch
from torch import nn


class Monitor:
    def __init__(self):
        self.stats = {}

    def attach(self, net):
        for place, layer in enumerate(net):
            layer.register_forward_hook(lambda _, __, out, place=place: self.note(place, out))

    def note(self, place, out):
        self.stats.setdefault(f"mean of {place}", []).append(out.mean().item())
        self.stats.setdefault(f"rms of {place}", []).append(out.pow(2).mean(1).sqrt())  # ORIGIN


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.Linear(512, 512), nn.SiLU(), nn.Linear(512, 2))
monitor = Monitor()
monitor.attach(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
test = torch.randn(128, 256)
for hour in range(60):
    sound = torch.randn(128, 256)
    loss = nn.functional.cross_entropy(net(sound), (sound[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    alarms = net(test).argmax(1).sum()
print(int(alarms), len(monitor.stats))
