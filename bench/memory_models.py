"""Ten small models with a training loop, for ``bench/memory.py``.

``python memory_models.py NAME BATCH STEPS`` trains one of them. Batches are made before each step,
so nothing but the job itself lives.
"""

from __future__ import annotations

import sys
import time
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional


class Residual(nn.Module):
    """A residual block with batch norm, as in a ResNet."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU(),
            nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out),
        )  # fmt: skip
        plain = stride == 1 and width == out
        self.short = nn.Identity() if plain else nn.Conv2d(width, out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute."""
        return torch.relu(self.body(x) + self.short(x))


class Inverted(nn.Module):
    """An inverted residual with a depthwise convolution, as in a MobileNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(width, inner, 1, bias=False), nn.BatchNorm2d(inner), nn.ReLU6(),
            nn.Conv2d(inner, inner, 3, 1, 1, groups=inner, bias=False), nn.BatchNorm2d(inner),
            nn.ReLU6(), nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute."""
        return x + self.body(x)


class Depthwise(nn.Module):
    """A block as in a ConvNeXt."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.deep = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.wide, self.back = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute."""
        y = self.norm(self.deep(x).permute(0, 2, 3, 1))
        return x + self.back(functional.gelu(self.wide(y))).permute(0, 3, 1, 2)


class UNet(nn.Module):
    """Two levels down and up, with skips."""

    def __init__(self) -> None:
        super().__init__()

        def pair(a: int, b: int) -> nn.Sequential:
            return nn.Sequential(
                nn.Conv2d(a, b, 3, 1, 1), nn.ReLU(), nn.Conv2d(b, b, 3, 1, 1), nn.ReLU()
            )

        self.first, self.second, self.middle = pair(3, 16), pair(16, 32), pair(32, 64)
        self.up2, self.up1 = pair(96, 32), pair(48, 16)
        self.head = nn.Conv2d(16, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute."""
        a = self.first(x)
        b = self.second(functional.max_pool2d(a, 2))
        c = self.middle(functional.max_pool2d(b, 2))
        b = self.up2(torch.cat([b, functional.interpolate(c, scale_factor=2.0)], 1))
        a = self.up1(torch.cat([a, functional.interpolate(b, scale_factor=2.0)], 1))
        return self.head(a)


class Attention(nn.Module):
    """A block of a transformer with fused attention and dropout."""

    def __init__(self, width: int, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute."""
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.drop(self.out(y.transpose(1, 2).reshape(b, t, c)))
        return x + self.drop(self.mlp(self.norm2(x)))


class Language(nn.Module):
    """A small GPT, which computes its own loss."""

    def __init__(self, vocabulary: int = 2000, width: int = 192, length: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Attention(width, 6, causal=True) for _ in range(4))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Compute."""
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        return functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class Vision(nn.Module):
    """A small ViT."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 128, 4, 4)
        self.blocks = nn.Sequential(*(Attention(128, 4, causal=False) for _ in range(4)))
        self.head = nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Compute."""
        return self.head(self.blocks(self.patches(x).flatten(2).transpose(1, 2)).mean(1))


class Recurrent(nn.Module):
    """An LSTM over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.lstm = nn.Embedding(1000, 96), nn.LSTM(96, 160, 2, batch_first=True)
        self.head = nn.Linear(160, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Compute."""
        return self.head(self.lstm(self.tokens(ids))[0][:, -1])


class Autoencoder(nn.Module):
    """A convolutional VAE."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(
            nn.Conv2d(3, 32, 4, 2, 1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2, 1),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.code, self.uncode = nn.Linear(64 * 64, 64), nn.Linear(32, 64 * 64)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(32, 3, 4, 2, 1)
        )

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute."""
        mean, log = self.code(self.down(x)).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log).exp()
        return self.up(self.uncode(z).view(-1, 64, 8, 8)), mean, log


class Tables(nn.Module):
    """Embedding tables and a tower, as for recommendations."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20_000, 16) for _ in range(6))
        self.tower = nn.Sequential(nn.Linear(96, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU())
        self.head = nn.Linear(256, 10)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Compute."""
        x = torch.cat([table(ids[:, n]) for n, table in enumerate(self.tables)], 1)
        return self.head(self.tower(x))


def convolutional(blocks: list[nn.Module], width: int) -> nn.Module:
    """A classifier of images."""
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10)]
    return nn.Sequential(*blocks, *head)


def build(name: str) -> nn.Module:
    """Build a model by its name."""
    if name == "mlp":
        layers = [m for _ in range(4) for m in (nn.Linear(512, 512), nn.ReLU())]
        return nn.Sequential(
            nn.Flatten(), nn.Linear(3072, 512), nn.ReLU(), *layers, nn.Linear(512, 10)
        )
    if name == "resnet":
        stem = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
        sizes = [(32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
        return convolutional([*stem, *(Residual(*size) for size in sizes)], 128)
    if name == "mobilenet":
        return convolutional([nn.Conv2d(3, 16, 3, 2, 1), *(Inverted(16) for _ in range(5))], 16)
    if name == "convnext":
        return convolutional([nn.Conv2d(3, 48, 2, 2), *(Depthwise(48) for _ in range(4))], 48)
    kinds = {"unet": UNet, "vit": Vision, "gpt": Language, "lstm": Recurrent, "vae": Autoencoder,
             "tables": Tables}  # fmt: skip
    return kinds[name]()


NAMES = ("mlp", "resnet", "mobilenet", "convnext", "unet", "vit", "gpt", "lstm", "vae", "tables")
BATCHES = dict.fromkeys(NAMES, 16) | {"mlp": 64, "gpt": 8, "lstm": 16, "tables": 256, "unet": 4}


def make_batch(name: str, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Make inputs and targets."""
    if name == "gpt":
        return torch.randint(0, 2000, (batch, 64)), torch.randint(0, 2000, (batch, 64))
    if name == "lstm":
        return torch.randint(0, 1000, (batch, 48)), torch.randint(0, 10, (batch,))
    if name == "tables":
        return torch.randint(0, 20_000, (batch, 6)), torch.randint(0, 10, (batch,))
    x = torch.randn(batch, 3, 32, 32)
    return x, torch.randint(0, 2, (batch, 32, 32)) if name == "unet" else torch.randint(
        0, 10, (batch,)
    )


def compute_loss(name: str, model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """One forward pass."""
    if name == "gpt":
        return model(x, y)
    if name == "vae":
        out, mean, log = model(x)
        divergence = -0.5 * (1 + log - mean.square() - log.exp()).sum(1).mean()
        return functional.mse_loss(out, x) + 1e-3 * divergence
    out = model(x)
    return functional.cross_entropy(out, y)


def train(name: str, batch: int, steps: int, *, narrow: bool = False, change=bool) -> None:
    """Train for a few steps."""
    made = step_durations(name, batch, change, narrow=narrow)
    for _ in range(steps):
        next(made)


def step_durations(name: str, batch: int, change=bool, *, narrow: bool = False, end_step=bool):
    """Train without end; yields the CPU seconds of each step."""
    torch.manual_seed(0)
    model = build(name)
    change(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    while True:
        begin = time.process_time()
        x, y = make_batch(name, batch)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16) if narrow else nullcontext():
            loss = compute_loss(name, model, x, y)
        loss.backward()
        optimizer.step()
        loss.item()
        yield time.process_time() - begin
        end_step(optimizer)


if __name__ == "__main__":
    train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
