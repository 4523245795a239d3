import math

import torch
import torch.nn as nn

torch.manual_seed(1)
VOCAB, SEQ, DIM = 24, 20, 48


def markov_corpus(n, length):
    # every symbol has three likely successors
    table = torch.rand(VOCAB, VOCAB) * 0.02
    for s in range(VOCAB):
        table[s, torch.randperm(VOCAB)[:3]] += 1.0
    table = table / table.sum(1, keepdim=True)
    seq = torch.empty(n, length, dtype=torch.long)
    seq[:, 0] = torch.randint(0, VOCAB, (n,))
    for t in range(1, length):
        seq[:, t] = torch.multinomial(table[seq[:, t - 1]], 1).squeeze(1)
    return seq


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(max_len).unsqueeze(1).float()
        div = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div)
        pe[:, 1::2] = torch.cos(position * div)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


class TransformerLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        self.pos = PositionalEncoding(DIM)
        layer = nn.TransformerEncoderLayer(DIM, nhead=4, dim_feedforward=96, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.decoder = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        h = self.pos(self.embed(tokens))
        h = self.encoder(h)  # ORIGIN
        return self.decoder(h)


data = markov_corpus(256, SEQ + 1)
model = TransformerLM()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()

for step in range(60):
    batch = data[torch.randint(0, len(data), (16,))]
    inputs, targets = batch[:, :-1], batch[:, 1:]
    logits = model(inputs)
    loss = criterion(logits.reshape(-1, VOCAB), targets.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == 59:
        print(f"step {step:3d} | loss {loss.item():.3f} | ppl {math.exp(loss.item()):.2f}")
