"""Lines of handwriting, read by a recurrent network."""
import torch
from torch import nn

torch.manual_seed(0)
enc = nn.GRU(8, 32, batch_first=True)
head = nn.Linear(32, 6)
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
opt = torch.optim.Adam([*enc.parameters(), *head.parameters()], 1e-3)
for step in range(30):
    x = torch.randn(4, 12, 8)
    lens = torch.full((4,), 12)
    y = torch.randint(1, 6, (4, 10))
    ylens = torch.randint(3, 7, (4,))
    if step == 17:
        y[2, :9] = torch.tensor([3, 3, 3, 3, 3, 2, 2, 1, 4])
        ylens[2] = 9
    lp = head(enc(x)[0]).log_softmax(-1).transpose(0, 1)
    loss = ctc(lp, y, lens, ylens)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
