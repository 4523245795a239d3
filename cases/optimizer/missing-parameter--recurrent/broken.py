"""Words are read letter by letter and written backwards; an encoder and a decoder, each with an embedding of its own."""

import torch
from torch import nn

torch.manual_seed(0)
LETTERS, HIDDEN = 12, 24


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)

    def forward(self, word):
        return self.gru(self.embedding(word))[1]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(LETTERS, HIDDEN)
        self.gru = nn.GRU(HIDDEN, HIDDEN, batch_first=True)
        self.out = nn.Linear(HIDDEN, LETTERS)

    def forward(self, before, hidden):
        return self.out(self.gru(self.embedding(before), hidden)[0])


encoder, decoder = Encoder(), Decoder()
optimizer = torch.optim.Adam(decoder.parameters(), lr=1e-2)  # ORIGIN

for step in range(40):
    word = torch.randint(2, LETTERS, (16, 5))
    target = word.flip(1)
    before = torch.cat([torch.zeros(16, 1, dtype=torch.long), target[:, :-1]], 1)
    logits = decoder(before, encoder(word))
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
    encoder.zero_grad()
    decoder.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
