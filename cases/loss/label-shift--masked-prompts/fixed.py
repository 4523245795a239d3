import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, IGNORED = 24, -100


class Decoder(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.rnn = nn.LSTM(dim, dim, batch_first=True)
        self.lm_head = nn.Linear(dim, VOCAB)

    def forward(self, input_ids, labels):
        logits = self.lm_head(self.rnn(self.embed(input_ids))[0])
        loss = F.cross_entropy(logits[:, :-1].reshape(-1, VOCAB), labels[:, 1:].reshape(-1), ignore_index=IGNORED)
        return {"loss": loss, "logits": logits}


def conversations(n=32):
    """A prompt of four tokens, and an answer that counts on from its last one."""
    prompt = torch.randint(0, VOCAB, (n, 4))
    answer = (prompt[:, -1:] + torch.arange(1, 7)) % VOCAB
    ids = torch.cat([prompt, answer], 1)
    labels = ids.clone()
    labels[:, :4] = IGNORED
    return {"input_ids": ids, "labels": labels}


torch.manual_seed(0)
model = Decoder()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(40):
    out = model(**conversations())
    optimizer.zero_grad()
    out["loss"].backward()
    optimizer.step()
    if step % 10 == 9:
        print(step + 1, round(out["loss"].item(), 4))
