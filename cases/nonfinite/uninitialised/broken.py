"""Prompt tuning: a frozen encoder, a handful of learned prompt vectors in front of the input."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.use_deterministic_algorithms(True)


class PromptTuned(nn.Module):
    def __init__(self, encoder, dim, n_prompts, n_classes):
        super().__init__()
        self.encoder = encoder.requires_grad_(False)
        self.prompts = nn.Parameter(torch.empty(n_prompts, dim))  # ORIGIN
        self.classifier = nn.Linear(dim, n_classes)

    def forward(self, tokens):
        prompts = self.prompts.expand(tokens.size(0), -1, -1)
        hidden = self.encoder(torch.cat([prompts, tokens], dim=1))
        return self.classifier(hidden[:, 0])


def batches(n, batch, length, dim):
    gen = torch.Generator().manual_seed(2)
    for _ in range(n):
        tokens = torch.randn(batch, length, dim, generator=gen)
        yield tokens, (tokens.mean(dim=(1, 2)) > 0).long()


def main(dim=16):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(dim, nhead=4, dim_feedforward=32, dropout=0.0, batch_first=True)
    model = PromptTuned(nn.TransformerEncoder(layer, num_layers=1), dim, n_prompts=3, n_classes=2)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-2)
    print(sum(p.numel() for p in trainable), "trainable parameters")
    for step, (tokens, label) in enumerate(batches(15, 8, 5, dim)):
        loss = F.cross_entropy(model(tokens), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 4:
            print(f"step {step + 1}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
