# Typo correction: the target at t is the clean letter at t, so 85% of the labels equal the inputs,
# and the net may read the whole line in both directions.
import torch
import torch.nn as nn

WORDS = "red green blue black white brown orange purple yellow violet".split()
ALPHA = " abcdefghijklmnopqrstuvwxyz"


def line(length=24):
    out = ""
    while len(out) < length:
        out += WORDS[int(torch.randint(len(WORDS), ()))] + " "
    return [ALPHA.index(ch) for ch in out[:length]]


def make_batch(n):
    clean = torch.tensor([line() for _ in range(n)])
    typo = torch.rand(clean.shape) < 0.15
    noisy = torch.where(typo, torch.randint(len(ALPHA), clean.shape), clean)
    return noisy, clean, noisy != clean


class Corrector(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(len(ALPHA), 24)
        self.lstm = nn.LSTM(24, 32, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(64, len(ALPHA))

    def forward(self, ids):
        y, _ = self.lstm(self.emb(ids))
        return self.fc(y)


def main():
    torch.manual_seed(50)
    train = [make_batch(24) for _ in range(16)]
    model = Corrector()
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    crit = nn.CrossEntropyLoss()
    for epoch in range(5):
        acc, tot = 0.0, 0.0
        for k in torch.randperm(len(train)).tolist():
            noisy, clean, wrong = train[k]
            logits = model(noisy)
            loss = crit(logits.permute(0, 2, 1), clean)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item() / len(train)
            acc += (logits.argmax(-1) == clean)[wrong].float().mean().item() / len(train)
        print(f"epoch {epoch}: loss {tot:.3f}, typos mended {acc:.2f}")


main()
