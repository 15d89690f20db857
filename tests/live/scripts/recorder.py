losses = []


def record(step, loss):
    losses.append((step, loss))
