"""A worker: a loop in torch, with `DistributedDataParallel`.

Start it with `python examples/distributed/run.py torch`.
"""

import os

os.environ["KERAS_BACKEND"] = "torch"

import torch
import torch.distributed
from torch.nn.functional import cross_entropy

from examples.distributed import common


def main(rank, workers, port, folder):
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"tcp://127.0.0.1:{port}",
        rank=rank,
        world_size=workers,
    )
    x, y = common.make_data()
    x, y = (
        torch.from_numpy(common.my_part(part, rank, workers)) for part in (x, y)
    )
    model = common.make_model()
    optimizer = common.make_optimizer()
    checkpoint = common.Checkpoint(folder, model, optimizer)
    first = checkpoint.restore()
    # It averages the gradients, so every worker computes the same α.
    parallel = torch.nn.parallel.DistributedDataParallel(model)
    variables, size = model.trainable_variables, common.BATCH // workers
    for epoch in range(first, common.EPOCHS):
        for start in range(0, len(x), size):
            batch = slice(start, start + size)
            model.zero_grad()
            loss = cross_entropy(parallel(x[batch]), y[batch].long())
            loss.backward()
            gradients = [variable.value.grad for variable in variables]
            with torch.no_grad():
                optimizer.apply(gradients, variables)
        if rank == 0:
            checkpoint.save(epoch + 1)
        torch.distributed.barrier()
    common.report(folder, rank, model)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(**common.parse_worker())
