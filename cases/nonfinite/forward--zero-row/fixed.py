"""Does this clip contain speech? Works on the shape of the spectrum, not on its loudness."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def clips(n=180, bands=20):
    g = torch.Generator().manual_seed(5)
    speech = (torch.rand(n, generator=g) > 0.5).float()
    level = torch.rand(n, 1, generator=g) * 3 + 0.2
    formants = torch.linspace(1, 0, bands) * speech[:, None]
    spectrum = level * (formants + torch.rand(n, bands, generator=g))
    muted = 44
    spectrum[muted] = 0.0
    return spectrum, speech


class SpeechDetector(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.fc1 = nn.Linear(bands, 16)
        self.fc2 = nn.Linear(16, 1)

    def forward(self, spectrum):
        profile = spectrum / spectrum.norm(dim=1, keepdim=True).clamp(min=1e-6)
        hidden = torch.relu(self.fc1(profile))
        return torch.sigmoid(self.fc2(hidden)).squeeze(1)


def run():
    torch.manual_seed(9)
    spectrum, speech = clips()
    train = DataLoader(TensorDataset(spectrum, speech), batch_size=15, shuffle=True)
    detector = SpeechDetector(spectrum.shape[1])
    bce = nn.BCELoss()
    optimizer = torch.optim.Adam(detector.parameters(), lr=1e-2)
    for epoch in range(2):
        running = 0.0
        for x, y in train:
            optimizer.zero_grad()
            out = detector(x)
            loss = bce(out, y)
            loss.backward()
            optimizer.step()
            running += loss.item()
        print("epoch", epoch, "bce", round(running / len(train), 4))


if __name__ == "__main__":
    run()
