import torch
from torch import nn

from triplet_broken import hard_triplet_loss


class SpeakerEncoder(nn.Module):
    def __init__(self, n_mels=10, dim=16):
        super().__init__()
        self.conv = nn.Conv1d(n_mels, 24, kernel_size=3, padding=1)
        self.out = nn.Linear(24, dim)

    def forward(self, mel):
        h = torch.relu(self.conv(mel)).mean(dim=2)
        return nn.functional.normalize(self.out(h), dim=1)


torch.manual_seed(12)
N_SPEAKERS, FRAMES = 8, 15
voices = torch.randn(N_SPEAKERS, 10, 1)


def utterances(per_speaker=4):
    who = torch.arange(N_SPEAKERS).repeat_interleave(per_speaker)
    who = who[torch.randperm(len(who))]
    return voices[who] + 2.0 * torch.randn(len(who), 10, FRAMES), who


encoder = SpeakerEncoder()
optimizer = torch.optim.Adam(encoder.parameters(), lr=3e-3)
for i in range(50):
    mel, who = utterances()
    loss = hard_triplet_loss(encoder(mel), who)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 10 == 9:
        print("iter %d, triplet loss %.4f" % (i + 1, loss.item()))
