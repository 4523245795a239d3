"""Bodies of models: from a batch of vectors, images or sequences to hidden features."""

from __future__ import annotations

from draw import Draw
from script import Script, block

# Each defines `Body(inputs, width)`.
VECTOR = {
    "mlp": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.layers = nn.Sequential(
                    nn.Linear(inputs, width),
                    nn.ReLU(),
                    nn.Linear(width, width),
                    nn.ReLU(),
                )

            def forward(self, x):
                return self.layers(x)
        """,
    "dropout": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = nn.Linear(inputs, width)
                self.second = nn.Linear(width, width)
                self.dropout = nn.Dropout(0.1)

            def forward(self, x):
                return self.second(self.dropout(F.gelu(self.first(x))))
        """,
    "batchnorm": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = nn.Linear(inputs, width, bias=False)
                self.norm = nn.BatchNorm1d(width)
                self.second = nn.Linear(width, width)

            def forward(self, x):
                return torch.tanh(self.second(F.relu(self.norm(self.first(x)))))
        """,
    "layernorm": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = nn.Linear(inputs, width)
                self.norm = nn.LayerNorm(width)
                self.second = nn.Linear(width, width)

            def forward(self, x):
                return F.silu(self.second(F.silu(self.norm(self.first(x)))))
        """,
    "groupnorm": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = nn.Linear(inputs, width)
                self.norm = nn.GroupNorm(4, width)

            def forward(self, x):
                return F.leaky_relu(self.norm(self.first(x)), 0.1)
        """,
    "residual": """
        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.norm = nn.LayerNorm(width)
                self.linear = nn.Linear(width, width)

            def forward(self, x):
                return x + torch.tanh(self.linear(self.norm(x)))


        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.stem = nn.Linear(inputs, width)
                self.blocks = nn.ModuleList(Block(width) for _ in range(3))

            def forward(self, x):
                hidden = self.stem(x)
                for each in self.blocks:
                    hidden = each(hidden)
                return hidden
        """,
    "module_dict": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.paths = nn.ModuleDict(
                    {
                        "wide": nn.Linear(inputs, width),
                        "deep": nn.Sequential(
                            nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, width)
                        ),
                    }
                )

            def forward(self, x):
                return torch.tanh(sum(path(x) for path in self.paths.values()))
        """,
    "weight_norm": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = parametrizations.weight_norm(nn.Linear(inputs, width))
                self.second = parametrizations.weight_norm(nn.Linear(width, width))

            def forward(self, x):
                return torch.tanh(self.second(torch.tanh(self.first(x))))
        """,
    "spectral_norm": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = parametrizations.spectral_norm(nn.Linear(inputs, width))
                self.second = nn.Linear(width, width)

            def forward(self, x):
                return F.softplus(self.second(F.elu(self.first(x))))
        """,
    "lazy": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = nn.LazyLinear(width)
                self.second = nn.LazyLinear(width)

            def forward(self, x):
                return F.gelu(self.second(F.gelu(self.first(x))))
        """,
    "scripted": """
        class Mixer(nn.Module):
            def __init__(self, width: int):
                super().__init__()
                self.linear = nn.Linear(width, width)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                for _ in range(2):
                    x = x + torch.tanh(self.linear(x))
                return x


        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.stem = nn.Linear(inputs, width)
                self.mixer = torch.jit.script(Mixer(width))

            def forward(self, x):
                return self.mixer(self.stem(x))
        """,
    "checkpoint_reentrant": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.stem = nn.Linear(inputs, width)
                self.block = nn.Sequential(
                    nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width)
                )

            def forward(self, x):
                hidden = torch.tanh(self.stem(x))
                if self.training:
                    return checkpoint(self.block, hidden, use_reentrant=True)
                return self.block(hidden)
        """,
    "checkpoint": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.stem = nn.Linear(inputs, width)
                self.blocks = nn.ModuleList(
                    nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(2)
                )

            def run_block(self, block, hidden):
                counts["checkpointed"] += 1
                return hidden + block(hidden)

            def forward(self, x):
                hidden = self.stem(x)
                for block in self.blocks:
                    hidden = checkpoint(self.run_block, block, hidden, use_reentrant=False)
                return hidden
        """,
    "own_function": """
        class Swish(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                counts["swish_forward"] += 1
                ctx.save_for_backward(x)
                return x * torch.sigmoid(x)

            @staticmethod
            def backward(ctx, gradient):
                counts["swish_backward"] += 1
                (x,) = ctx.saved_tensors
                gate = torch.sigmoid(x)
                return gradient * (gate + x * gate * (1 - gate))


        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = nn.Linear(inputs, width)
                self.second = nn.Linear(width, width)

            def forward(self, x):
                return Swish.apply(self.second(Swish.apply(self.first(x))))
        """,
    "running_range": """
        class FakeQuantize(torch.autograd.Function):
            \"\"\"Round to 6 bits of a running range; the gradient passes straight through.\"\"\"

            limit = 1.0

            @staticmethod
            def forward(ctx, x):
                counts["quantized"] += 1
                seen = x.abs().max().item()
                FakeQuantize.limit = 0.9 * FakeQuantize.limit + 0.1 * seen
                scale = FakeQuantize.limit / 31
                return torch.round(x / scale).clamp(-32, 31) * scale

            @staticmethod
            def backward(ctx, gradient):
                return gradient


        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = nn.Linear(inputs, width)
                self.second = nn.Linear(width, width)

            def forward(self, x):
                hidden = FakeQuantize.apply(torch.tanh(self.first(x)))
                return torch.tanh(self.second(hidden))
        """,
    "parameters": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(inputs, width) / inputs**0.5)
                self.mix = nn.Parameter(torch.randn(width, width) / width**0.5)
                self.bias = nn.Parameter(torch.zeros(width))

            def forward(self, x):
                hidden = torch.tanh(x @ self.weight + self.bias)
                return hidden + torch.einsum("bi,ij->bj", hidden, self.mix)
        """,
    "experts": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.gate = nn.Linear(inputs, 3)
                self.experts = nn.ModuleList(nn.Linear(inputs, width) for _ in range(3))

            def forward(self, x):
                weights = torch.softmax(self.gate(x), dim=-1)
                outputs = torch.stack([torch.tanh(each(x)) for each in self.experts], dim=1)
                return torch.einsum("be,bew->bw", weights, outputs)
        """,
    "glu": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.up = nn.Linear(inputs, 2 * width)
                self.norm = nn.RMSNorm(width)
                self.register_buffer("seen", torch.zeros(()))

            def forward(self, x):
                if self.training:
                    self.seen += len(x)
                return self.norm(F.glu(self.up(x)))
        """,
    "low_rank": """
        class Body(nn.Module):
            \"\"\"A frozen layer with a trained low-rank correction.\"\"\"

            def __init__(self, inputs, width):
                super().__init__()
                self.base = nn.Linear(inputs, width).requires_grad_(False)
                self.down = nn.Linear(inputs, 4, bias=False)
                self.up = nn.Linear(4, width, bias=False)

            def forward(self, x):
                return torch.tanh(self.base(x) + self.up(self.down(x)))
        """,
}

IMAGE = {
    "conv_bn": """
        class Body(nn.Module):
            def __init__(self, channels, width):
                super().__init__()
                self.layers = nn.Sequential(
                    nn.Conv2d(channels, 8, 3, padding=1, bias=False),
                    nn.BatchNorm2d(8),
                    nn.ReLU(),
                    nn.Conv2d(8, width, 3, padding=1, bias=False),
                    nn.BatchNorm2d(width),
                    nn.ReLU(),
                )

            def forward(self, x):
                return self.layers(x)
        """,
    "conv_gn": """
        class Body(nn.Module):
            def __init__(self, channels, width):
                super().__init__()
                self.stem = nn.Conv2d(channels, width, 3, padding=1)
                self.norm = nn.GroupNorm(4, width)
                self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width)
                self.pointwise = nn.Conv2d(width, width, 1)

            def forward(self, x):
                hidden = F.relu(self.norm(self.stem(x)))
                return hidden + self.pointwise(F.relu(self.depthwise(hidden)))
        """,
    "conv_residual": """
        class Residual(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
                self.norm = nn.BatchNorm2d(width)

            def forward(self, x):
                return F.relu(x + self.norm(self.first(x)))


        class Body(nn.Module):
            def __init__(self, channels, width):
                super().__init__()
                self.stem = nn.Conv2d(channels, width, 3, padding=1)
                self.blocks = nn.Sequential(Residual(width), Residual(width))

            def forward(self, x):
                return self.blocks(self.stem(x))
        """,
    "unet": """
        class Body(nn.Module):
            def __init__(self, channels, width):
                super().__init__()
                self.down = nn.Conv2d(channels, width, 3, padding=1)
                self.middle = nn.Conv2d(width, width, 3, padding=1)
                self.up = nn.ConvTranspose2d(width, width, 2, stride=2)
                self.join = nn.Conv2d(2 * width, width, 3, padding=1)

            def forward(self, x):
                skip = F.gelu(self.down(x))
                hidden = self.up(F.gelu(self.middle(F.max_pool2d(skip, 2))))
                return F.gelu(self.join(torch.cat([hidden, skip], dim=1)))
        """,
}

# Causal, so that a language model can use the same bodies.
SEQUENCE = {
    "lstm": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.lstm = nn.LSTM(inputs, width, batch_first=True)

            def forward(self, x):
                hidden, _ = self.lstm(x)
                return hidden
        """,
    "gru": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.gru = nn.GRU(inputs, width, num_layers=2, batch_first=True, dropout=0.1)

            def forward(self, x):
                hidden, _ = self.gru(x)
                return hidden
        """,
    "gru_cell": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.cell = nn.GRUCell(inputs, width)
                self.width = width

            def forward(self, x):
                state = x.new_zeros(x.shape[0], self.width)
                states = []
                for time in range(x.shape[1]):
                    state = self.cell(x[:, time], state)
                    states.append(state)
                return torch.stack(states, dim=1)
        """,
    "transformer": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.project = nn.Linear(inputs, width)
                layer = nn.TransformerEncoderLayer(
                    width,
                    2,
                    dim_feedforward=2 * width,
                    dropout=0.0,
                    batch_first=True,
                    norm_first=True,
                )
                self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
                self.position = nn.Parameter(0.02 * torch.randn(64, width))

            def forward(self, x):
                length = x.shape[1]
                mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=x.dtype)
                hidden = self.project(x) + self.position[:length]
                return self.encoder(hidden, mask=mask, is_causal=True)
        """,
    "attention": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.project = nn.Linear(inputs, width)
                self.qkv = nn.Linear(width, 3 * width)
                self.norm = nn.LayerNorm(width)
                self.position = nn.Embedding(64, width)

            def forward(self, x):
                batch, length, _ = x.shape
                hidden = self.project(x) + self.position(torch.arange(length))
                q, k, v = self.qkv(self.norm(hidden)).chunk(3, dim=-1)
                q, k, v = (each.view(batch, length, 2, -1).transpose(1, 2) for each in (q, k, v))
                mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                return hidden + mixed.transpose(1, 2).reshape(batch, length, -1)
        """,
    "causal_conv": """
        class Body(nn.Module):
            def __init__(self, inputs, width):
                super().__init__()
                self.first = nn.Conv1d(inputs, width, 3)
                self.second = nn.Conv1d(width, width, 3)

            def forward(self, x):
                hidden = x.transpose(1, 2)
                hidden = torch.relu(self.first(F.pad(hidden, (2, 0))))
                hidden = torch.relu(self.second(F.pad(hidden, (2, 0))))
                return hidden.transpose(1, 2)
        """,
}

# Under torch.func, second passes or deep copies these would change their state.
STATEFUL = {
    "batchnorm",
    "spectral_norm",
    "scripted",
    "checkpoint",
    "checkpoint_reentrant",
    "own_function",
    "running_range",
    "glu",
    "conv_bn",
    "conv_residual",
}
RANDOM = {"dropout", "gru", "checkpoint_reentrant"}
KINDS = {"vector": VECTOR, "image": IMAGE, "sequence": SEQUENCE}


def write_body(draw: Draw, script: Script, kind: str) -> str:
    """Choose a body for this kind of input, write its class and return its name."""
    bodies = KINDS[kind]
    name = draw.axis("body", list(bodies))
    text = block(bodies[name]).replace('\\"', '"')
    if "parametrizations." in text:
        script.imports.add("from torch.nn.utils import parametrizations")
    if "checkpoint(" in text:
        script.imports.add("from torch.utils.checkpoint import checkpoint")
    script.definitions.append(text)
    return name
