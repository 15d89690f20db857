"""Trains a small network on a folder of JPEG photos, as a first version of such a script often
looks: it works, the loss falls, and most of the time the device waits.

    python train.py --photos FOLDER
"""

import argparse
import random
from pathlib import Path

import torch
from PIL import Image, ImageOps
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    def __init__(self, folder, size=64):
        self.files = sorted(Path(folder).glob("*.jpg"))
        self.size = size

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        file = self.files[index]
        image = Image.open(file).convert("RGB")
        image = ImageOps.autocontrast(image)
        if random.random() < 0.5:
            image = ImageOps.mirror(image)
        image = image.rotate(random.uniform(-10, 10), resample=Image.BICUBIC)
        image = image.resize((self.size, self.size), Image.LANCZOS)
        pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
        pixels = pixels.view(self.size, self.size, 3).permute(2, 0, 1).float() / 255
        return pixels, int(file.name.split("-")[0])


def network():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(1024, 10),
    )


def evaluate(model, loader, device):
    model.eval()
    right = 0
    for images, labels in loader:
        right += (model(images.to(device)).argmax(1) == labels.to(device)).sum().item()
    model.train()
    return right / len(loader.dataset)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--out", default="model.pt")
    args = parser.parse_args()

    torch.manual_seed(0)
    random.seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Photos(args.photos)
    train, test = torch.utils.data.random_split(data, [len(data) - 32, 32])
    loader = DataLoader(train, batch_size=16, shuffle=True)
    model = network().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loss_of = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        total = 0.0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item()
        score = evaluate(model, DataLoader(test, batch_size=8), device)
        torch.save(model.state_dict(), args.out)
        print(f"epoch {epoch}: loss {total / len(loader):.3f}, right {score:.0%}", flush=True)


if __name__ == "__main__":
    main()
