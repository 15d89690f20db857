"""Writes JPEG photos to train on: shapes of ten kinds on a noisy background, from a fixed seed.

python make.py FOLDER [COUNT]
"""

import random
import sys
from pathlib import Path

from PIL import Image, ImageDraw, ImageFilter

SIZE = (512, 384)
KINDS = 10


def photo(kind, chance):
    noise = Image.effect_noise((SIZE[0] // 4, SIZE[1] // 4), 60).resize(SIZE)
    tint = Image.new("RGB", SIZE, tuple(chance.randrange(256) for _ in range(3)))
    image = Image.blend(tint, noise.convert("RGB"), 0.4)
    draw = ImageDraw.Draw(image)
    for _ in range(kind + 1):
        x, y, r = chance.randrange(SIZE[0]), chance.randrange(SIZE[1]), chance.randrange(30, 150)
        color = tuple(chance.randrange(256) for _ in range(3))
        (draw.ellipse if kind % 2 else draw.rectangle)((x - r, y - r, x + r, y + r), fill=color)
    return image.filter(ImageFilter.GaussianBlur(1))


def main(folder, count):
    folder.mkdir(parents=True, exist_ok=True)
    chance = random.Random(0)
    for number in range(count):
        kind = number % KINDS
        place = folder / f"{kind}-{number:04d}.jpg"
        if not place.exists():
            photo(kind, chance).save(place, quality=90)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 320)
