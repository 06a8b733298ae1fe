"""TuFT's own command line, in a Ray that is told of a GPU. The one call of its trainer that fails without CUDA does nothing."""

import ray
from tuft.cli import main


def without_cuda():
    import torch

    torch.cuda.reset_peak_memory_stats = lambda device=None: None


ray.init(num_cpus=4, num_gpus=1, include_dashboard=False, runtime_env={"worker_process_setup_hook": without_cuda})
main()
