import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
lengths = torch.randint(20, 200, (1280,)).tolist()
order = sorted(range(1280), key=lambda i: lengths[i])
shard = order[rank::2]


class Letters(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(64, 48), nn.GRU(48, 64, batch_first=True), nn.Linear(64, 5)

    def forward(self, ids):
        return self.out(self.rnn(self.embed(ids))[0][:, -1])


model = DistributedDataParallel(Letters())
opt = torch.optim.SGD(model.parameters(), lr=0.05)
start = time.perf_counter()
for epoch in range(2):
    for i in range(0, 640, 8):
        rows = shard[i : i + 8]
        longest = max(lengths[r] for r in rows)
        ids = torch.stack([(torch.arange(longest) * 7 + r) % 64 for r in rows])
        loss = nn.functional.cross_entropy(model(ids), torch.tensor(rows) % 5)
        opt.zero_grad()
        loss.backward()
        opt.step()
if rank == 0:
    print("loss", round(loss.item(), 1))
    print(f"took {time.perf_counter() - start:.2f} s")
dist.destroy_process_group()
