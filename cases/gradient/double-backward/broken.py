import torch
from torch import nn

torch.manual_seed(0)

SEQ, BATCH, HIDDEN = 15, 4, 20


class StatefulRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.RNN(1, HIDDEN, batch_first=True)
        self.readout = nn.Linear(HIDDEN, 1)

    def forward(self, x, h):
        y, h = self.cell(x, h)
        return self.readout(y), h


def sine_chunks(n_chunks):
    """Consecutive pieces of four sine waves and the same pieces one tick ahead."""
    phase = torch.arange(BATCH).float().unsqueeze(1)
    for c in range(n_chunks):
        ticks = torch.arange(c * SEQ, (c + 1) * SEQ + 1) * 0.2
        wave = torch.sin(ticks + phase).unsqueeze(-1)
        yield wave[:, :-1], wave[:, 1:]


model = StatefulRNN()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.MSELoss()

hidden = torch.zeros(1, BATCH, HIDDEN)
for i, (chunk, ahead) in enumerate(sine_chunks(30)):
    prediction, hidden = model(chunk, hidden)  # ORIGIN
    loss = criterion(prediction, ahead)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    if i % 10 == 0:
        print(i, loss.item())
