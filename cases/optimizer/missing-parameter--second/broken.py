import torch
import torch.nn as nn

torch.manual_seed(2)

# characters -> vector -> next character, encoder and decoder kept apart
text = "the quick brown fox jumps over the lazy dog and runs back to the den "
chars = sorted(set(text))
stoi = {c: i for i, c in enumerate(chars)}
data = torch.tensor([stoi[c] for c in text])
CTX = 6


class Encoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.emb = nn.Embedding(vocab, 12)
        self.proj = nn.Linear(12 * CTX, dim)

    def forward(self, ids):
        return torch.tanh(self.proj(self.emb(ids).flatten(1)))


class Decoder(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.hidden = nn.Linear(dim, dim)
        self.logits = nn.Linear(dim, vocab)

    def forward(self, z):
        return self.logits(torch.relu(self.hidden(z)))


encoder = Encoder(len(chars), 48)
decoder = Decoder(len(chars), 48)
optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)  # ORIGIN
criterion = nn.CrossEntropyLoss()

windows = data.unfold(0, CTX + 1, 1)
for step in range(60):
    rows = windows[torch.randint(0, len(windows), (48,))]
    loss = criterion(decoder(encoder(rows[:, :CTX])), rows[:, CTX])
    encoder.zero_grad()
    decoder.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(f"step {step + 1}: {loss.item():.3f}")
