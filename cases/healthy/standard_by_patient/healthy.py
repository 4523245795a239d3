"""Leave one patient out: each patient's signals are standardised by themselves, those of the one left out as well."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CHANNELS, PATIENTS = 4, 5


def recording(patient, draws):
    """Features of windows, on this patient's own scale, and whether there was a spike."""
    spike = torch.rand(60, generator=draws) < 0.5
    signal = torch.randn(60, CHANNELS, generator=draws) + 2.0 * spike[:, None]
    signal = signal * (1 + patient) + 3 * patient
    return (signal - signal.mean(0)) / signal.std(0), spike.float()


def evaluate(model, windows):
    model.eval()
    with torch.no_grad():
        hits = [((model(x).squeeze(1) > 0) == (y > 0.5)).float().mean() for x, y in windows]
    model.train()
    return float(sum(hits) / len(hits))


torch.manual_seed(0)
draws = torch.Generator().manual_seed(1)
patients = [recording(patient, draws) for patient in range(PATIENTS)]
for left_out in (0, 3):
    others = [each for number, each in enumerate(patients) if number != left_out]
    train = TensorDataset(torch.cat([x for x, _ in others]), torch.cat([y for _, y in others]))
    model = nn.Sequential(nn.Linear(CHANNELS, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(4):
        for x, y in DataLoader(train, batch_size=32, shuffle=True):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"without patient {left_out}: {evaluate(model, DataLoader(TensorDataset(*patients[left_out]), batch_size=60)):.2f}")
