import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalBlock(nn.Module):
    def __init__(self, dim, max_len):
        super().__init__()
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.register_buffer("allowed", torch.ones(max_len, max_len).tril())

    def forward(self, x):
        length = x.shape[1]
        scores = self.query(x) @ self.key(x).transpose(1, 2) / x.shape[-1] ** 0.5
        blocked = self.allowed[:length, :length] == 0
        scores = scores.masked_fill(blocked, float("-inf"))
        return x + scores.softmax(-1) @ self.value(x)


class CharModel(nn.Module):
    def __init__(self, n_chars=30, dim=16, depth=2, max_len=24):
        super().__init__()
        self.embed = nn.Embedding(n_chars, dim)
        self.blocks = nn.ModuleList(CausalBlock(dim, max_len) for _ in range(depth))
        self.out = nn.Linear(dim, n_chars)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.out(x)


class Trainer:
    def __init__(self, model, device):
        self.device = device
        self.model = model.to(device)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.completed = 0

    def fit(self, batches):
        for n, ids in enumerate(batches):
            ids = ids.to(self.device)
            try:
                self.training_step(ids)
                self.completed += 1
            except RuntimeError as err:
                print(f"batch {n} skipped: {err}")

    def training_step(self, ids):
        logits = self.model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


torch.manual_seed(0)
trainer = Trainer(CharModel(), device="meta")
trainer.fit(torch.randint(30, (8, 20)) for _ in range(4))
print("completed steps:", trainer.completed)
