"""A job whose workers compute for seconds, for tests of the cores that they have."""

from own_sgd import OWN_SGD

TRAIN = f"""
import time
{OWN_SGD}
from torch.utils.data import DataLoader, Dataset

class Heavy(Dataset):
    def __len__(self):
        return 100000
    def __getitem__(self, index):
        total = 0
        for number in range(40000):
            total += number * number % 7
        return torch.randn(64), index % 4

torch.set_num_threads(1)
model = torch.nn.Linear(64, 4)
optimizer = SGD(model.parameters(), lr=0.1)
begin, done = time.time(), 0
for x, y in DataLoader(Heavy(), batch_size=4, num_workers=2):
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    done += 1
    if done > 20 and time.time() - begin > 3:
        break
"""
