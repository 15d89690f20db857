"""Statements whose result depends on the sample alone, by the source."""

import pytest

from whyidle.analysis.lines.fixed_results import find_fixed_lines

HEAD = """import numpy as np
import torch
from scipy.ndimage import distance_transform_edt
vae = Autoencoder().requires_grad_(False).eval()
anchors = torch.linspace(0, 1, 9)
net = Net()
opt = torch.optim.Adam(net.parameters())
criterion = BorderLoss()
"""
LOOP = """for epoch in range(9):
    for {names} in {loader}:
        {lines}
        loss = {loss}
        loss.backward()
        opt.step()
"""
FUNCTIONS = """
def far(mask):
    return distance_transform_edt(mask) - distance_transform_edt(1 - mask)
def spread(mask):
    return mask + np.random.beta(0.2, 0.2)
class BorderLoss(nn.Module):
    def forward(self, logits, target):
        maps = np.stack([far(m) for m in target.cpu().numpy()])
        return (logits * torch.from_numpy(maps)).mean()
"""


def found(*lines, names="x, y", loader="loader", loss="net(x).mean()", head=HEAD):
    """Return the texts of lines found in a training loop with these lines."""
    loop = LOOP.format(names=names, loader=loader, lines="\n        ".join(lines), loss=loss)
    text = head + FUNCTIONS + loop
    lines = find_fixed_lines(text).of_samples
    return [text.splitlines()[number - 1].strip() for number in sorted(lines)]


@pytest.mark.parametrize(
    "lines",
    [
        ["z = vae.encode(x)"],
        ["with torch.no_grad():", "    z = vae(x.to(0))"],
        ["x = x.to(0).float()", "z = vae(x)"],
        ["z = np.stack([far(m) for m in y.numpy()])"],
        ["z = torch.linalg.svd(x)"],
        ["z = torch.cdist(x, anchors)"],
    ],
)
def test_what_follows_from_the_batch_alone(lines):
    assert found(*lines) == [lines[-1].strip()]


@pytest.mark.parametrize("this", ["self", "s", "module"])
def test_what_a_trained_module_computes_is_not_fixed_whatever_it_calls_itself(this):
    """A decoder with attention over what an encoder gave: it learns, and its state changes."""
    decoder = f"""
class Decoder(nn.Module):
    def forward({this}, images, words):
        state = {this}.start(images.mean(1))
        for t in range(9):
            seen = {this}.attention(images, state)
            state = {this}.cell(seen, words[:, t])
        return state
net = Decoder()
"""
    assert not found(loss="net(x, y).mean()", head=HEAD + decoder)


@pytest.mark.parametrize(
    ("made", "uses"),
    [
        ("z = Net()", "opt = build(z)\nz.eval()"),  # its optimizer is made elsewhere
        ("z = models.resnet18()", "trainer = Trainer(model=z)\ndef test():\n    z.eval()"),
        ("z = [torch.randn(9, 9)]", "opt = torch.optim.SGD(z)"),
    ],
)
def test_what_a_loss_trains_is_not_fixed(made, uses):
    call = "F.linear(x, z[0])" if "randn" in made else "z(x)"
    for loss in (f"{call}.mean()", f"net({call}).mean()"):
        lines = find_fixed_lines(
            f"import torch\nimport torch.nn.functional as F\n{made}\n{uses}\nnet = Net()\n"
            f"head = torch.optim.SGD(net.parameters())\nfor x, y in loader:\n    out = {call}\n"
            f"    loss = {loss}\n    loss.backward()\n"
        )
        assert not lines.of_samples


@pytest.mark.parametrize("off", ["p.requires_grad = False", "p.requires_grad_(False)"])
def test_a_network_whose_gradients_are_switched_off_one_by_one_is_fixed(off):
    switch = f"enc = Encoder().eval()\nfor p in enc.parameters():\n    {off}\nsave(enc)\n"
    assert found("z = enc(x)", head=HEAD + switch) == ["z = enc(x)"]


def test_a_function_of_a_class_that_is_given_the_object():
    text = (
        HEAD
        + """
class Border(nn.Module):
    def forward(self, mask, number):
        return np.sort(number)
border = Border()
for i, (x, y) in enumerate(loader):
    z = Border.forward(border, x, i)
    net(z).backward()
"""
    )
    assert not find_fixed_lines(text).of_samples


def test_a_static_function_of_a_class_gets_all_of_its_arguments():
    static = """
class Border(nn.Module):
    @staticmethod
    def forward(target, scale):
        maps = distance_transform_edt(target.numpy())
        return maps * scale
border = Border()
"""
    assert found(loss="border(y, net(x)).mean()", head=HEAD + static) == [
        "maps = distance_transform_edt(target.numpy())"
    ]


def test_counters_of_a_loop_are_no_samples():
    assert found("z = vae(x)", names="i, (x, y)", loader="enumerate(loader)") == ["z = vae(x)"]
    assert not found("z = far(i)", names="i, (x, y)", loader="enumerate(loader)")


def test_a_loss_of_the_users_own_is_entered():
    assert found("pass", loss="criterion(net(x), y)") == [
        "maps = np.stack([far(m) for m in target.cpu().numpy()])"
    ]


@pytest.mark.parametrize(
    "lines",
    [
        ["z = net(x)"],  # trained
        ["x = x + torch.randn_like(x)", "z = vae(x)"],
        ["x += noise", "z = vae(x)"],
        ["x[0] = noise", "z = vae(x)"],
        ["x.add_(noise)", "z = vae(x)"],
        ["augment(x)", "z = vae(x)"],
        ["if torch.rand(1) < 0.5:", "    x = x.flip(-1)", "z = vae(x)"],
        ["if epoch > 3:", "    x = x.flip(-1)", "z = vae(x)"],
        ["y = x.add_(noise)", "z = vae(x)"],
        ["z = spread(y)"],
        ["z = np.random.beta(x, y)"],
        ["z = vae(x, epoch)"],
        ["z = far(net(x))"],
        ["z = unknown(x)"],
        ["z = self.vae(x)"],
        ["y = x.to(0)"],  # no work
    ],
)
def test_what_may_differ_or_change_something_is_left_alone(lines):
    assert not found(*lines)


@pytest.mark.parametrize(
    "line",
    [
        "vae = Autoencoder()",  # in training mode
        "vae = Autoencoder().eval()\nopt2 = torch.optim.SGD(vae.parameters())",
        "vae = Autoencoder().eval()\nvae.train()",
        "vae = Autoencoder().eval()\nfor p in vae.parameters(): p.mul_(0.9)",
    ],
)
def test_a_network_that_may_change_is_left_alone(line):
    head = HEAD.replace("vae = Autoencoder().requires_grad_(False).eval()", line)
    assert not found("z = vae.encode(x)", head=head)


def test_a_loop_without_training_and_other_languages_are_left_alone():
    assert not find_fixed_lines(f"{HEAD}for x in loader:\n    z = vae(x)\n").of_samples
    assert not find_fixed_lines("for x in loader {").of_samples


EPOCHS = """
import numpy as np
import torch
pictures = [draw(number) for number in range(20)]
level = 0
def patches(picture):
    return [np.rot90(picture, turn) for turn in range(4)]
for epoch in range(9):
    {line}
    for x in DataLoader(rows):
        net(x).mean().backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("line", "again"),
    [
        ("rows = [p for picture in pictures for p in patches(picture)]", True),
        ("rows = np.sort(pictures)", True),
        ("rows = [p for picture in pictures for p in patches(picture)][:epoch]", False),
        ("rows = torch.randperm(len(pictures))", False),
        ("rows = load(pictures)", False),
        ("level += 1; rows = np.sort(pictures) + level", False),
        ("pictures.append(1); rows = np.sort(pictures)", False),
        ("rows = torch.stack([net(x) for x in pictures])", False),
    ],
)
def test_what_every_epoch_builds_anew(line, again):
    assert bool(find_fixed_lines(EPOCHS.format(line=line)).of_epochs) is again
