"""Which of eight speakers is it? A recurrent network over spectrograms of WAV files."""

import argparse
import json
import os
import time
import wave

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, SPEAKERS = 16_000, 8


def record(folder, clips, seconds, long_share, long_times, pieces, seed):
    """Made-up speech. A clip is one WAV file, or as many as it has pieces."""
    os.makedirs(folder)
    rng = np.random.default_rng(seed)
    for clip in range(clips):
        times = long_times if rng.random() < long_share else 1
        t = np.arange(int(RATE * seconds * times)) / RATE
        pitch = 90 + 25 * (clip % SPEAKERS)
        sound = sum(np.sin(2 * np.pi * pitch * k * t) / k for k in range(1, 6))
        sound = (3000 * (sound + 0.4 * rng.standard_normal(len(t)))).astype(np.int16)
        for piece, part in enumerate(np.array_split(sound, pieces)):
            with wave.open(f"{folder}/{clip:05}.{piece:03}.wav", "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(RATE)
                file.writeframes(part.tobytes())


class Clips(Dataset):
    def __init__(self, folder, clips, pieces, opening, bands, finer, crop, repeat, kept):
        self.folder, self.clips, self.pieces = folder, clips, pieces
        self.opening, self.bands, self.finer = opening, bands, finer
        self.crop, self.repeat = crop, repeat
        self.kept = {} if kept else None
        self.modest = False
        self.heard = None
        self.window = torch.hann_window(512)

    def __len__(self):
        return self.clips * self.repeat

    def read(self, clip):
        parts = []
        for piece in range(self.pieces):
            if self.opening:
                time.sleep(self.opening)  # the file server looks the name up
            path = f"{self.folder}/{clip:05}.{piece:03}.wav"
            with wave.open(path) as file:
                parts.append(np.frombuffer(file.readframes(file.getnframes()), np.int16))
            if self.modest:
                self.let_go(path)
        sound = np.concatenate(parts)[: self.heard]
        return torch.from_numpy(sound.astype(np.float32) / 32768)

    def let_go(self, path):
        """Leaves the machine's memory to others."""
        file = os.open(path, os.O_RDONLY)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)

    def spectrum(self, sound):
        for turn in range(self.finer):
            hop = 256 >> min(turn, 3)
            power = torch.stft(sound, 512, hop, window=self.window, return_complex=True).abs()
        power = power[1 : self.bands + 1].log1p()
        at = torch.linspace(0, power.shape[1] - 1, self.crop).long()
        return power[:, at].T.contiguous()

    def __getitem__(self, index):
        clip = index % self.clips
        if self.kept is not None and clip in self.kept:
            return self.kept[clip], clip % SPEAKERS
        features = self.spectrum(self.read(clip))
        if self.kept is not None:
            self.kept[clip] = features
        return features, clip % SPEAKERS


class Listener(nn.Module):
    def __init__(self, bands, hidden, layers):
        super().__init__()
        self.rnn = nn.LSTM(bands, hidden, layers, batch_first=True)
        self.out = nn.Linear(hidden, SPEAKERS)

    def forward(self, x):
        return self.out(self.rnn(x)[0].mean(1))


def main():
    parser = argparse.ArgumentParser()
    add = parser.add_argument
    add("--clips", type=int, default=160)
    add("--length", type=float, default=0.5, help="of a clip, s")
    add("--long-share", type=float, default=0.0)
    add("--long-times", type=int, default=1)
    add("--pieces", type=int, default=1, help="files per clip")
    add("--opening-ms", type=float, default=0.0, help="of the file server")
    add("--finer", type=int, default=1, help="resolutions that are tried")
    add("--kept", action="store_true", help="features stay in memory")
    add("--modest", action="store_true")
    add("--heard", type=float, default=0.0, help="from the beginning of a clip, s; 0: all")
    add("--bands", type=int, default=64)
    add("--crop", type=int, default=40)
    add("--hidden", type=int, default=128)
    add("--layers", type=int, default=2)
    add("--batch", type=int, default=16)
    add("--workers", type=int, default=1)
    add("--worker-threads", type=int, default=1)
    add("--ahead", type=int, default=2)
    add("--repeat", type=int, default=8, help="passes over the clips in an epoch")
    add("--steps", type=int, default=0)
    add("--seconds", type=float, default=10.0)
    add("--seed", type=int, default=0)
    add("--device", default="cpu")
    add("--times")
    args = parser.parse_args()
    begin = time.perf_counter()
    torch.manual_seed(args.seed)
    record(
        "clips", args.clips, args.length, args.long_share, args.long_times, args.pieces, args.seed
    )
    data = Clips(
        "clips",
        args.clips,
        args.pieces,
        args.opening_ms / 1e3,
        args.bands,
        args.finer,
        args.crop,
        args.repeat,
        args.kept,
    )
    data.modest = args.modest
    data.heard = round(RATE * args.heard) or None
    os.sync()
    more = {}
    if args.workers:
        more["prefetch_factor"] = args.ahead
        more["persistent_workers"] = True
        more["worker_init_fn"] = Threads(args.worker_threads)
    loader = DataLoader(
        data, args.batch, shuffle=True, drop_last=True, num_workers=args.workers, **more
    )
    device = torch.device(args.device)
    model = Listener(args.bands, args.hidden, args.layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    marks = train(args, loader, model, optimizer, device)
    if args.times:
        with open(args.times, "w") as file:
            json.dump({"begin": begin, "marks": marks, "samples": args.batch}, file)


class Threads:
    def __init__(self, count):
        self.count = count

    def __call__(self, _):
        torch.set_num_threads(self.count)


def train(args, loader, model, optimizer, device):
    marks = []
    while True:
        for sounds, speakers in loader:
            logits = model(sounds.to(device))
            loss = nn.functional.cross_entropy(logits, speakers.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            marks.append(time.perf_counter())
            if len(marks) % 100 == 0:
                print(len(marks), loss.item(), flush=True)
            if len(marks) == args.steps:
                return marks
            if not args.steps and marks[-1] - marks[0] > args.seconds:
                return marks


if __name__ == "__main__":
    main()
