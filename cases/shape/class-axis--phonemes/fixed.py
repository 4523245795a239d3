import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

PHONEMES, FRAMES, MELS = 11, 20, 13


class Frames(nn.Module):
    """a phoneme for every frame"""

    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(MELS, 32, batch_first=True, bidirectional=True)
        self.classify = nn.Linear(64, PHONEMES)

    def forward(self, mel):
        return self.classify(self.gru(mel)[0])


def speech(n):
    phone = torch.randint(0, PHONEMES, (n, FRAMES // 4)).repeat_interleave(4, dim=1)
    voice = torch.randn(PHONEMES, MELS)
    return TensorDataset(voice[phone] + 0.5 * torch.randn(n, FRAMES, MELS), phone)


def main():
    torch.manual_seed(8)
    loader = DataLoader(speech(96), batch_size=16, shuffle=True)
    net, ce = Frames(), nn.CrossEntropyLoss()
    opt = torch.optim.AdamW(net.parameters(), lr=5e-3)
    for epoch in range(3):
        for mel, phone in loader:
            opt.zero_grad()
            loss = ce(net(mel).transpose(1, 2), phone)
            loss.backward()
            opt.step()
        print(epoch, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
