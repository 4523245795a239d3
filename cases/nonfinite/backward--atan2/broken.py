# Recover the delays of two microphones by matching phases. Full batch, L-BFGS.
import math

import torch

torch.manual_seed(40)
SR, N = 8000, 256
t = torch.arange(N) / SR
freqs = torch.fft.rfftfreq(N, 1 / SR)
click = torch.exp(-((t - 0.004) * 2500) ** 2) * torch.sin(2 * math.pi * 900 * (t - 0.004))
source = torch.fft.rfft(click.double()).to(torch.complex64)
source = source * torch.exp(-(freqs / 900) ** 4)  # anti-alias filter of the recorder

true_delay = torch.tensor([2.0e-4, -1.2e-4])


def shifted(delay_ms, gain):
    angle = -2 * math.pi * freqs * delay_ms.unsqueeze(1) * 1e-3
    re = gain.unsqueeze(1) * (source.real * torch.cos(angle) - source.imag * torch.sin(angle))
    im = gain.unsqueeze(1) * (source.real * torch.sin(angle) + source.imag * torch.cos(angle))
    return re, im


with torch.no_grad():
    target_re, target_im = shifted(true_delay * 1e3, torch.tensor([1.0, 0.7]))
    weight = torch.hypot(target_re, target_im)
    weight = weight / weight.sum(1, keepdim=True)
    target_phase = torch.atan2(target_im, target_re)

delay = torch.zeros(2, requires_grad=True)
gain = torch.ones(2, requires_grad=True)
solver = torch.optim.LBFGS([delay, gain], lr=0.5, max_iter=6, line_search_fn="strong_wolfe")


def closure():
    solver.zero_grad()
    re, im = shifted(delay, gain)
    phase = torch.atan2(im, re)  # ORIGIN
    phase_loss = (weight * (1 - torch.cos(phase - target_phase))).sum()
    level_loss = ((re - target_re) ** 2 + (im - target_im) ** 2).mean()
    loss = phase_loss + 0.1 * level_loss
    loss.backward()
    return loss


for sweep in range(6):
    loss = solver.step(closure)
    print(f"sweep {sweep} loss {loss.item():.6f} delay {[round(d, 4) for d in delay.tolist()]} ms")
