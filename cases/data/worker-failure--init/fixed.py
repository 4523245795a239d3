"""Which bird sings? Calls lie one after the other in one file, and every worker reads with a handle of its own."""
import os
import struct
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info, random_split

RECORD = struct.Struct("<16fi")


def write_calls(path, count):
    with open(path, "wb") as file:
        for _ in range(count):
            bird = int(torch.randint(3, ()))
            notes = torch.randn(16) + torch.linspace(-1, 1, 16) * (bird - 1) * 2
            file.write(RECORD.pack(*notes.tolist(), bird))


class Calls(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None

    def __len__(self):
        return os.path.getsize(self.path) // RECORD.size

    def __getitem__(self, k):
        self.file.seek(k * RECORD.size)
        *notes, bird = RECORD.unpack(self.file.read(RECORD.size))
        return torch.tensor(notes), bird


def open_file(worker):
    calls = get_worker_info().dataset.dataset
    calls.file = open(calls.path, "rb")


def main():
    torch.manual_seed(8)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls.bin")
        write_calls(path, 240)
        known, held_out = random_split(Calls(path), [200, 40])
        net = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 3))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for epoch in range(2):
            for notes, bird in DataLoader(known, 25, shuffle=True, num_workers=2, worker_init_fn=open_file):
                loss = nn.functional.cross_entropy(net(notes), bird)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(epoch, f"{loss.item():.3f}")


main()
