import copy
import random
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

random.seed(0)


def annotate(i):
    objects = [
        {"bbox": [random.random() for _ in range(4)], "category": random.randint(0, 9), "iscrowd": 0,
         "segmentation": [[random.random() for _ in range(40)] for _ in range(4)]}
        for _ in range(8)
    ]
    return {"file": f"{i}.jpg", "image": [random.random() for _ in range(256)], "annotations": objects}


RECORDS = [annotate(i) for i in range(800)]


class Boxes(Dataset):
    def __len__(self):
        return len(RECORDS)

    def __getitem__(self, i):
        record = RECORDS[i]
        boxes = torch.tensor([o["bbox"] for o in record["annotations"]])
        return torch.tensor(record["image"]), boxes


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 32))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
loader = DataLoader(Boxes(), batch_size=8, shuffle=True)
start = time.perf_counter()
for epoch in range(5):
    for image, boxes in loader:
        loss = nn.functional.smooth_l1_loss(net(image).view(-1, 8, 4), boxes)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("epoch", epoch, "loss", round(loss.item(), 4))
print(f"took {time.perf_counter() - start:.2f} s")
