import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = "the quick brown fox jumps over the lazy dog. pack my box with five dozen liquor jugs. " * 6
CHARS = sorted(set(TEXT))
STOI = {c: i for i, c in enumerate(CHARS)}
BLOCK, DIM, HEADS = 24, 32, 4


class CausalAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM)
        future = torch.full((BLOCK, BLOCK), float("-inf")).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, DIM // HEADS).unbind(2)
        score = torch.einsum("bqhd,bkhd->bhqk", q, k) / (DIM // HEADS) ** 0.5
        att = (score + self.future[:t, :t]).softmax(-1)
        return self.out(torch.einsum("bhqk,bkhd->bqhd", att, v).reshape(b, t, DIM))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.att = CausalAttention()
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x):
        x = x + self.att(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class CharLM(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, DIM), nn.Embedding(BLOCK, DIM)
        nn.init.normal_(self.tok.weight, std=0.1)
        nn.init.normal_(self.pos.weight, std=0.1)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, vocab, bias=False)
        self.head.weight = self.tok.weight  # tied

    def forward(self, ids):
        x = self.tok(ids) + self.pos(torch.arange(ids.size(1)))
        return self.head(self.norm(self.blocks(x)))


torch.manual_seed(1234)
data = torch.tensor([STOI[c] for c in TEXT], dtype=torch.int16)  # 28 characters fit easily
model = CharLM(len(CHARS))
opt = torch.optim.AdamW(model.parameters(), lr=4e-3)

for step in range(61):
    at = torch.randint(0, len(data) - BLOCK - 1, (16, 1)) + torch.arange(BLOCK + 1)
    chunk = data[at].long()
    logits = model(chunk[:, :-1])
    loss = F.cross_entropy(logits.view(-1, len(CHARS)), chunk[:, 1:].reshape(-1))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    if step % 20 == 0:
        print(f"step {step:2d} loss {loss.item():.3f}")

model.eval()
ids = torch.tensor([[STOI[c] for c in "the "]])
with torch.no_grad():
    for _ in range(30):
        nxt = model(ids[:, -BLOCK:])[:, -1].argmax(-1, keepdim=True)
        ids = torch.cat([ids, nxt], dim=1)
print(repr("".join(CHARS[i] for i in ids[0].tolist())))
