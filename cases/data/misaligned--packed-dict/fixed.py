"""Walking, running or cycling from phone accelerometers; recordings of different length."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset


class Activities(Dataset):
    def __init__(self, n, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.items = [self.make() for _ in range(n)]

    def make(self):
        activity = int(torch.randint(0, 3, (), generator=self.gen))
        length = int(torch.randint(8, 24, (), generator=self.gen))
        t = torch.arange(length)[:, None] * (0.3 + 0.5 * activity)
        signal = torch.cat([t.sin(), t.cos()], 1) + 0.2 * torch.randn(length, 2, generator=self.gen)
        return {"signal": signal, "activity": activity}

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


class Collate:
    def __call__(self, items):
        lengths = torch.tensor([len(item["signal"]) for item in items])
        signals = pad_sequence([item["signal"] for item in items], batch_first=True)
        lengths, order = lengths.sort(descending=True)
        signals = signals[order]
        return {
            "signals": signals,
            "lengths": lengths,
            "activity": torch.tensor([item["activity"] for item in items])[order],
        }


class Recogniser(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(2, 20, batch_first=True)
        self.out = nn.Linear(20, 3)

    def forward(self, batch):
        packed = pack_padded_sequence(batch["signals"], batch["lengths"], batch_first=True)
        return self.out(self.rnn(packed)[1][-1])


torch.manual_seed(2)
loader = DataLoader(Activities(192, 2), batch_size=16, shuffle=True, collate_fn=Collate())
model = Recogniser()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    hits = 0
    for batch in loader:
        logits = model(batch)
        loss = nn.functional.cross_entropy(logits, batch["activity"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        hits += (logits.argmax(1) == batch["activity"]).sum().item()
    print(f"epoch {epoch}: {hits / 192:.3f}")
