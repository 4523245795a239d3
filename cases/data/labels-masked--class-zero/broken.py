"""Which notes of a melody are sung with vibrato: a tag for each note, melodies of different lengths."""
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

PLAIN, VIBRATO, SLIDE = range(3)
REST = 12


class Melodies(Dataset):
    def __init__(self, count, seed):
        draw = torch.Generator().manual_seed(seed)
        self.items = []
        for _ in range(count):
            notes = torch.randint(0, 12, (int(torch.randint(5, 14, (1,), generator=draw)),), generator=draw)
            tags = torch.where(notes % 4 == 0, VIBRATO, torch.where(notes > 8, SLIDE, PLAIN))
            self.items.append((notes, tags))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def collate(melodies):
    notes, tags = zip(*melodies, strict=True)
    notes = pad_sequence(notes, batch_first=True, padding_value=REST)
    tags = pad_sequence(tags, batch_first=True)
    return notes, tags


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(13, 16, padding_idx=REST)
        self.rnn = nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, 3)

    def forward(self, notes):
        return self.out(self.rnn(self.embed(notes))[0])


torch.manual_seed(0)
loader = DataLoader(Melodies(200, seed=1), batch_size=20, shuffle=True, collate_fn=collate)
tagger = Tagger()
loss_of = nn.CrossEntropyLoss(ignore_index=0)  # ORIGIN
optimizer = torch.optim.Adam(tagger.parameters(), lr=5e-3)
for epoch in range(5):
    for notes, tags in loader:
        loss = loss_of(tagger(notes).transpose(1, 2), tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
