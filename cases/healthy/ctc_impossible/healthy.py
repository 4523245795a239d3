"""CTC: some transcripts are longer than their audio, so their likelihood is 0 and the loss is inf; those are zeroed by design."""
import torch
from torch import nn

torch.manual_seed(34)
BLANK, LETTERS, FRAMES = 0, 6, 10


class Acoustic(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(LETTERS, 32, 3, padding=1)
        self.out = nn.Linear(32, LETTERS + 1)

    def forward(self, x):
        h = torch.relu(self.conv(x)).transpose(1, 2)
        return self.out(h).log_softmax(-1).transpose(0, 1)  # time first for CTC


def utterance():
    word = torch.randint(1, LETTERS + 1, (int(torch.randint(2, 5, ())),))
    frames = torch.zeros(LETTERS, FRAMES)
    for k, letter in enumerate(word.tolist()):
        frames[letter - 1, 2 * k + 1] = 1.0
    return frames + 0.1 * torch.randn_like(frames), word


def batch(n):
    items = [utterance() for _ in range(n)]
    heard = torch.full((n,), FRAMES)
    heard[0] = 2                                       # recording cut off
    return torch.stack([f for f, _ in items]), torch.cat([w for _, w in items]), heard, torch.tensor([len(w) for _, w in items])


net = Acoustic()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
ctc = nn.CTCLoss(blank=BLANK, zero_infinity=True)
for step in range(81):
    x, words, heard, lengths = batch(16)
    loss = ctc(net(x), words, heard, lengths)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        with torch.no_grad():
            each = nn.functional.ctc_loss(net(x), words, heard, lengths, reduction="none")
        print(f"step {step} loss {loss.item():.3f} impossible {int(torch.isinf(each).sum())} of {len(each)}")
