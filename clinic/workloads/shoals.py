"""Tells shoals of fish apart by their echoes: a residual network in Flax, trained with Optax."""

import argparse
import json
import pickle
import time

began = time.perf_counter()

import flax.nnx as nnx  # noqa: E402
import grain.python as grain  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--echoes", type=int, default=2048)
parser.add_argument("--points", type=int, default=128)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--width", type=int, default=128)
parser.add_argument("--blocks", type=int, default=2)
parser.add_argument("--fetch-ms", type=float, default=0.0, help="how long the ship takes")
parser.add_argument("--fetchers", type=int, default=0)
parser.add_argument("--damp", type=int, default=0, help="passes over each echo")
parser.add_argument("--whole", action="store_true", help="damp a batch at once")
parser.add_argument("--stages", type=int, default=1, help="of training, in turn")
parser.add_argument("--traced-stage", action="store_true")
parser.add_argument("--plain", action="store_true", help="the step as Python")
parser.add_argument("--quiz-every", type=int, default=0)
parser.add_argument("--quiz-batches", type=int, default=8)
parser.add_argument("--save-every", type=int, default=0)
parser.add_argument("--seconds", type=float, default=0.0)
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--device", default="cpu")
parser.add_argument("--times", default="times.json")
args = parser.parse_args()
random = np.random.default_rng(args.seed)


class Echoes:
    """What the ships have recorded."""

    def __init__(self):
        self.echoes = random.standard_normal((args.echoes, args.points), dtype=np.float32)
        self.kinds = random.integers(0, 6, args.echoes)

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, number):
        if args.fetch_ms:
            time.sleep(args.fetch_ms / 1e3)
        return self.echoes[number], self.kinds[number]


class Block(nnx.Module):
    def __init__(self, width, rngs):
        self.norm = nnx.LayerNorm(width, rngs=rngs)
        self.inner = nnx.Linear(width, 2 * width, rngs=rngs)
        self.outer = nnx.Linear(2 * width, width, rngs=rngs)

    def __call__(self, x):
        return x + self.outer(nnx.gelu(self.inner(self.norm(x))))


class Listener(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(args.points, args.width, rngs=rngs)
        self.blocks = nnx.List([Block(args.width, rngs) for _ in range(args.blocks)])
        self.last = nnx.Linear(args.width, 6, rngs=rngs)

    def __call__(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


def compute_loss(model, echoes, kinds):
    return optax.softmax_cross_entropy_with_integer_labels(model(echoes), kinds).mean()


def learn(model, optimizer, echoes, kinds, stage):
    loss, slopes = nnx.value_and_grad(compute_loss)(model, echoes * 0.9**stage, kinds)
    optimizer.update(model, slopes)
    return loss


@nnx.jit
def ask(model, echoes, kinds):
    return (model(echoes).argmax(1) == kinds).mean()


class Trainer:
    def __init__(self):
        self.model = Listener(nnx.Rngs(args.seed))
        self.optimizer = nnx.Optimizer(self.model, optax.adamw(1e-3), wrt=nnx.Param)
        static = () if args.traced_stage else ("stage",)
        self.learn = learn if args.plain else nnx.jit(learn, static_argnames=static)
        self.marks, self.drained = [], []

    def batches(self):
        sampler = grain.IndexSampler(
            args.echoes, grain.NoSharding(), shuffle=True, num_epochs=None, seed=args.seed
        )
        found = grain.DataLoader(
            data_source=Echoes(),
            sampler=sampler,
            operations=[grain.Batch(args.batch, drop_remainder=True)],
            worker_count=0,
            read_options=grain.ReadOptions(num_threads=args.fetchers, prefetch_buffer_size=64),
        )
        for echoes, kinds in found:
            yield self.damp(echoes), kinds

    def damp(self, echoes):
        if args.whole:
            for _ in range(args.damp):
                left = np.pad(echoes[:, :-1], ((0, 0), (1, 0)))
                right = np.pad(echoes[:, 1:], ((0, 0), (0, 1)))
                echoes = np.float32(0.25) * (left + right) + np.float32(0.5) * echoes
            return echoes
        echoes = echoes.copy()
        for _ in range(args.damp):
            for row in echoes:
                row[:] = np.convolve(row, np.float32([0.25, 0.5, 0.25]), mode="same")
        return echoes

    def save_checkpoint(self):
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(nnx.state(self.model))]
        with open("shoals.pickle", "wb") as file:
            pickle.dump(leaves, file)

    def evaluate(self):
        chosen = random.integers(0, args.echoes, (args.quiz_batches, args.batch))
        source = self.source
        return np.mean([ask(self.model, source.echoes[one], source.kinds[one]) for one in chosen])

    def train(self):
        self.source = Echoes()
        for echoes, kinds in self.batches():
            step = len(self.marks) + 1
            stage = step % args.stages
            loss = self.learn(
                self.model, self.optimizer, jnp.asarray(echoes), jnp.asarray(kinds), stage=stage
            )
            if args.quiz_every and step % args.quiz_every == 0:
                self.evaluate()
            if args.save_every and step % args.save_every == 0:
                self.save_checkpoint()
            if self.is_over(loss):
                return

    def is_over(self, loss):
        step = len(self.marks) + 1
        if step == 1:
            jax.block_until_ready(loss)
        self.marks.append(time.perf_counter())
        since = self.marks[-1] - self.marks[0]
        last = (args.steps and step >= args.steps) or (args.seconds and since > args.seconds)
        if last or (not self.drained and since > 0.2 * args.seconds):
            jax.block_until_ready(nnx.state(self.model))
            self.marks[-1] = time.perf_counter()
            self.drained.append(step - 1)
        return bool(last)


trainer = Trainer()
trainer.train()
with open(args.times, "w") as file:
    told = {"begin": began, "marks": trainer.marks, "samples": args.batch}
    json.dump({**told, "drained": trainer.drained}, file)
