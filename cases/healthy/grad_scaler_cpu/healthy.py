"""float16 autocast on the CPU with GradScaler; the first scale is far too high and gets halved until it fits."""
import torch
from torch import nn
from torch.amp import GradScaler, autocast


def rotated_digits(n, g):
    proto = torch.randn(5, 36, generator=torch.Generator().manual_seed(99))
    label = torch.randint(5, (n,), generator=g)
    return proto[label] + 0.8 * torch.randn(n, 36, generator=g), label


def main():
    torch.manual_seed(11)
    g = torch.Generator().manual_seed(12)
    model = nn.Sequential(nn.Linear(36, 64), nn.ReLU(), nn.LayerNorm(64), nn.Linear(64, 5))
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    scaler = GradScaler(device="cpu", init_scale=2.0 ** 24, growth_interval=40)
    skipped = 0
    for step in range(90):
        x, y = rotated_digits(32, g)
        opt.zero_grad(set_to_none=True)
        with autocast("cpu", dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        before = scaler.get_scale()
        scaler.update()
        skipped += scaler.get_scale() < before
        if step % 18 == 0:
            print(f"step {step:2d} loss {loss.item():.4f} scale {scaler.get_scale():g} skipped {skipped}")


main()
