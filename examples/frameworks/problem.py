"""The problem that every script solves: data and initial weights from one file, and constants."""

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

SIZES = (784, 512, 512, 10)
BATCH = 128
LEARNING_RATE = 0.01
MOMENTUM = 0.9


def parse_arguments(**more):
    """The arguments of every script. --losses keeps the loss of each step and writes them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--problem", type=Path, default=Path("problem.npz"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--losses", type=Path)
    for name, choices in more.items():
        parser.add_argument(f"--{name}", choices=choices, required=True)
    return parser.parse_args()


def write_problem(path, steps, seed=7):
    """Write images of ten noisy prototypes, their classes in training order, and weights."""
    random = np.random.default_rng(seed)
    classes = random.integers(0, SIZES[-1], steps * BATCH).astype(np.int32)
    prototypes = random.normal(size=(SIZES[-1], SIZES[0]))
    noise = random.normal(size=(len(classes), SIZES[0]))
    images = (0.1 * prototypes[classes] + noise).astype(np.float32)
    arrays = {"images": images, "classes": classes}
    for i, (inputs, outputs) in enumerate(pairwise(SIZES)):
        weight = random.normal(size=(inputs, outputs)) * np.sqrt(1 / inputs)
        arrays[f"weight{i}"] = weight.astype(np.float32)
        arrays[f"bias{i}"] = np.zeros(outputs, np.float32)
    np.savez(path, **arrays)


def read_problem(path, steps):
    """Images, classes, and a list of (weight, bias) with weights of shape (inputs, outputs)."""
    with np.load(path) as file:
        arrays = dict(file)
    layers = [(arrays[f"weight{i}"], arrays[f"bias{i}"]) for i in range(len(SIZES) - 1)]
    count = steps * BATCH
    return arrays["images"][:count], arrays["classes"][:count], layers


def slice_batches(images, classes):
    """The batches in order."""
    for begin in range(0, len(images), BATCH):
        yield images[begin : begin + BATCH], classes[begin : begin + BATCH]


def write_losses(path, losses):
    """Write the losses if they were asked for."""
    if path is not None:
        np.save(path, np.asarray([float(loss) for loss in losses], np.float64))
