import numpy as np
import torch

torch.manual_seed(4)
BS = 40


def read_scans(seed=4):
    rng = np.random.RandomState(seed)
    scans = rng.randn(203, 60).astype(np.float32)
    grades = rng.randint(0, 3, size=203)
    grades[rng.choice(203, 7, replace=False)] = -1      # annotator was not sure
    return scans, grades


scans, grades = read_scans()
sure = grades >= 0
scans, grades = scans[sure], grades[sure]
scans = (scans - scans.mean(axis=0)) / scans.std(axis=0)

x_all = torch.from_numpy(scans)
y_all = torch.from_numpy(grades)

W1 = (torch.randn(60, 32) / 8).requires_grad_()
W2 = (torch.randn(32, 3) / 6).requires_grad_()
opt = torch.optim.SGD([W1, W2], lr=0.1)
criterion = torch.nn.CrossEntropyLoss()

failed = 0
for epoch in range(3):
    for i in range(0, len(x_all), BS):
        x = x_all[i:i + BS]
        y = y_all[i:i + BS]
        opt.zero_grad()
        try:
            loss = criterion(torch.tanh(x @ W1) @ W2, y)
            loss.backward()
        except Exception as exc:
            failed += 1
            print("batch at", i, "->", exc)
            continue
        opt.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))
print("failed batches:", failed)
