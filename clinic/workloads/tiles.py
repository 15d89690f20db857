"""Sorts tiles of a satellite's picture, each a long row of measurements."""

import argparse
import json
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Tiles(Dataset):
    def __init__(self, args):
        rng = np.random.default_rng(args.seed)
        kind = np.float64 if args.double else np.float32
        self.tiles = rng.standard_normal((args.tiles, args.channels)).astype(kind)
        self.kinds = rng.integers(0, 10, args.tiles)
        self.fetch, self.clean, self.count = args.fetch_ms / 1e3, args.clean, args.epoch

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        index %= len(self.tiles)
        if self.fetch:
            time.sleep(self.fetch)
        tile = self.tiles[index]
        for _ in range(self.clean):
            tile = np.sort(tile)[::-1] * 0.5 + np.convolve(tile, [0.2, 0.6, 0.2], "same") * 0.5
        return torch.from_numpy(np.ascontiguousarray(tile)), int(self.kinds[index])


class Net(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.dim, self.small, self.on_host = args.dim, args.small, args.rank_on_host
        self.peek = args.peek
        self.layers = nn.ModuleList(nn.Linear(args.dim, args.dim) for _ in range(args.depth))
        self.scale = nn.Parameter(torch.ones(max(args.small, 1)))
        self.head = nn.Linear(args.dim, 10)
        self.most = 0.0

    def forward(self, x):
        x = x[:, : x.shape[1] // self.dim * self.dim].unflatten(1, (self.dim, -1)).mean(2)
        if self.on_host:
            order = torch.from_numpy(np.argsort(x.detach().cpu().numpy(), axis=1))
            x = x + 0.01 * order.to(x.dtype).to(x.device)
        for layer in self.layers:
            x = torch.relu(layer(x))
            if self.peek:
                self.most = max(self.most, x.detach().abs().max().item())
        for i in range(self.small):
            x = x * self.scale[i] + 0.001
        return self.head(x)


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--tiles", type=int, default=512)
    p.add_argument("--channels", type=int, default=1024)
    p.add_argument("--epoch", type=int, default=100_000)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--larger", type=int, default=1, help="times the batch")
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--depth", type=int, default=5)
    p.add_argument("--small", type=int, default=0, help="small operators at the end")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--leave", action="store_true", help="workers end with the epoch")
    p.add_argument("--pin", action="store_true")
    p.add_argument("--later", action="store_true", help="do not wait for copies")
    p.add_argument("--double", action="store_true")
    p.add_argument("--parts", type=int, default=1, help="in which a batch is sent")
    p.add_argument("--fetch-ms", type=float, default=0.0)
    p.add_argument("--clean", type=int, default=0)
    p.add_argument("--half", action="store_true")
    p.add_argument("--matmul", default="highest")
    p.add_argument("--peek", action="store_true")
    p.add_argument("--print-every", type=int, default=50)
    p.add_argument("--keep-outputs", action="store_true")
    p.add_argument("--rank-on-host", action="store_true")
    p.add_argument("--release", action="store_true", help="give unused memory back")
    p.add_argument("--update", choices=("loop", "fused"), default="fused")
    p.add_argument("--save-every", type=int, default=0)
    p.add_argument("--test-every", type=int, default=0)
    p.add_argument("--test-batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=0)
    p.add_argument("--seconds", type=float, default=10.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--device", default="cpu")
    p.add_argument("--times")
    return p.parse_args()


def send(batch, device, args):
    x, kinds = batch
    if args.parts > 1:
        x = torch.cat(
            [part.to(device, non_blocking=args.later) for part in x.chunk(args.parts, 1)], 1
        )
    else:
        x = x.to(device, non_blocking=args.later)
    return x.float(), kinds.to(device, non_blocking=args.later)


def test(net, data, device, args):
    net.eval()
    right = 0
    with torch.no_grad():
        for at in range(0, 256, args.test_batch):
            x = torch.from_numpy(data.tiles[at : at + args.test_batch]).float().to(device)
            right += (net(x).argmax(1).cpu().numpy() == data.kinds[at : at + args.test_batch]).sum()
    net.train()
    return right / 256


def main():
    args = parse()
    begin = time.perf_counter()
    torch.manual_seed(args.seed)
    torch.set_float32_matmul_precision(args.matmul)
    data = Tiles(args)
    more = {"persistent_workers": not args.leave} if args.workers else {}
    size = args.batch * args.larger
    loader = DataLoader(
        data,
        size,
        shuffle=True,
        drop_last=True,
        num_workers=args.workers,
        pin_memory=args.pin,
        **more,
    )
    device = torch.device(args.device)
    net = Net(args).to(device)
    optimizer = torch.optim.AdamW(
        net.parameters(), lr=1e-3, foreach=False, fused=args.update == "fused"
    )
    loss_of = nn.CrossEntropyLoss()
    marks, drained, outputs, done, until = [], [], [], False, args.seconds
    while not done:
        for batch in loader:
            x, kinds = send(batch, device, args)
            with torch.autocast(device.type, torch.bfloat16, enabled=args.half):
                out = net(x)
                loss = loss_of(out, kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step = len(marks) + 1
            if args.keep_outputs:
                outputs = [*outputs[-9:], (x.cpu(), out.detach().cpu())]
            if args.release:
                getattr(torch, device.type).empty_cache()
            if step % args.print_every == 0:
                print(step, loss.item(), flush=True)
            if args.test_every and step % args.test_every == 0:
                print("right:", test(net, data, device, args))
            if args.save_every and step % args.save_every == 0:
                torch.save(net.state_dict(), "tiles.pt")
            past = time.perf_counter() - marks[0] if marks else 0.0
            done = step == args.steps if args.steps else past > until
            if args.times and (done or (not drained and past > args.seconds / 5)):
                # what is timed begins and ends with a device that has done all it was given
                getattr(torch, device.type).synchronize()
                drained.append(len(marks))
                until = time.perf_counter() - marks[0] + args.seconds * 4 / 5
            marks.append(time.perf_counter())
            if done:
                break
    if args.times:
        with open(args.times, "w") as file:
            told = {"begin": begin, "marks": marks, "samples": size, "drained": drained}
            json.dump(told, file)


if __name__ == "__main__":
    main()
