"""What is computed on the emulated device is what the CPU computes, bit by bit."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import nn

from emulator.device.devices import device as device_of


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 36, 16),
        nn.Dropout(0.2),
        nn.GELU(),
        nn.LayerNorm(16),
        nn.Linear(16, 5),
    )


def train(device: str, **options: bool) -> list[torch.Tensor]:
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, **options)  # before the move
    model.to(device)
    torch.manual_seed(1)
    losses = []
    for _ in range(3):
        images, labels = torch.randn(8, 3, 6, 6), torch.randint(0, 5, (8,))
        loss = nn.functional.cross_entropy(
            model(images.to(device, non_blocking=True)), labels.to(device)
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach().cpu())
    return [*losses, *(each.detach().cpu() for each in model.parameters())]


@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}])
def test_training_gives_the_numbers_of_the_cpu(options: dict[str, bool]):
    for here, there in zip(train("emulated", **options), train("cpu", **options), strict=True):
        assert torch.equal(here, there)


def layers() -> list[nn.Module]:
    return [
        nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        nn.MultiheadAttention(8, 2, batch_first=True),
    ]


@pytest.mark.parametrize("number", range(2))
def test_layers(number: int):
    results = []
    for device in ("cpu", "emulated"):
        torch.manual_seed(3)
        layer = layers()[number].to(device)
        torch.manual_seed(4)
        values = torch.randn(2, 5, 8).to(device).requires_grad_()
        inputs = [values] * (3 if number else 1)
        out = layer(*inputs)
        (out[0] if isinstance(out, tuple) else out).square().sum().backward()
        results.append(values.grad.cpu())
    assert torch.equal(*results)


def test_autocast_lowers_products_and_keeps_losses():
    linear = nn.Linear(4, 4).to("emulated")
    with torch.autocast("emulated", dtype=torch.bfloat16):
        out = linear(torch.ones(2, 4, device="emulated"))
        assert out.dtype is torch.bfloat16
        assert nn.functional.mse_loss(out, torch.zeros_like(out)).dtype is torch.float32
    out.float().sum().backward()
    assert linear.weight.grad.dtype is torch.float32


def test_models_are_copied_saved_and_loaded():
    model = network().to("emulated")
    twin = copy.deepcopy(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for each in twin.parameters():
        nn.init.zeros_(each)
    file.seek(0)
    twin.load_state_dict(torch.load(file, weights_only=False))
    for first, second in zip(model.parameters(), twin.parameters(), strict=True):
        assert second.device.type == "emulated"
        assert first is not second
        assert torch.equal(first.cpu(), second.cpu())


def test_tied_weights_stay_tied():
    model = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
    model[1].weight = model[0].weight
    model.to("emulated")
    assert model[1].weight is model[0].weight


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_agree(kind: type[nn.Module]):
    """Their cells are fused on every device but the CPU: rounding may differ."""
    results = []
    for device in ("cpu", "emulated"):
        torch.manual_seed(3)
        layer = kind(4, 6, num_layers=2)
        layer.to(device)
        torch.manual_seed(4)
        values = torch.randn(5, 3, 4).to(device).requires_grad_()
        out, _ = layer(values)
        out.square().sum().backward()
        grads = [each.grad.cpu() for each in layer.parameters()]
        results.append([out.detach().cpu(), values.grad.cpu(), *grads])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(here, there)


def test_channels_last_images_are_not_turned():
    taken = []
    for form in (torch.contiguous_format, torch.channels_last):
        layer = nn.Conv2d(4, 4, 3).to("emulated").to(memory_format=form)
        images = torch.randn(2, 4, 8, 8, device="emulated").contiguous(memory_format=form)
        before = device_of(0).record.launches
        layer(images)
        taken.append(device_of(0).record.launches - before)
    assert taken[0] == taken[1] + 1
