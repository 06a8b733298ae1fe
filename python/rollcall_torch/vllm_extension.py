"""What a vLLM worker needs to take pushed weights: `--worker-extension-cls rollcall_torch.vllm_extension.TakesWeights`.

vLLM mixes the class into its worker and calls it by `/collective_rpc` (VLLM_SERVER_DEV_MODE=1). It imports no vLLM.
"""

import json
from typing import Any

import torch

from rollcall_torch.buckets import BucketReader, gpu_name, open_shared
from rollcall_torch.weight_group import WeightGroup, reach


class TakesWeights:
    # Attributes of vLLM's worker.
    device: torch.device
    rank: int
    model_runner: Any

    def rollcall_take_weights(self, told: str) -> None:
        bucket = json.loads(told)
        if bucket["first"]:
            handle = bucket["handles"].get(gpu_name(self.device))
            if handle is None:
                raise ValueError(f"no trainer rank is on this worker's GPU {gpu_name(self.device)}")
            self.rollcall_bucket = open_shared(handle, self.device)
            self.rollcall_reader = BucketReader()
            self.rollcall_version = None
        weights = self.rollcall_reader.read(self.rollcall_bucket, bucket["entries"]) if bucket["entries"] else []
        if weights:
            self.model_runner.model.load_weights(weights)
            torch.cuda.synchronize()  # the trainer fills the bucket again after this
        if bucket["last"]:
            self.rollcall_version = bucket["version"]
            del self.rollcall_bucket, self.rollcall_reader

    def rollcall_join_group(self, told: str) -> None:
        place = json.loads(told)
        store = reach(place["host"], place["port"])
        self.rollcall_group = WeightGroup(store, place["first"] + self.rank, place["size"], self.device)

    def rollcall_receive_weights(self, told: str) -> None:
        """Takes a whole version from the group while the trainer sends it."""
        self.rollcall_version = None
        weights = self.rollcall_group.receive()
        # Undoes what the server did to its weights after loading (packing, quantising), where this vLLM knows how.
        reload = getattr(self, "reload_weights", None)
        if reload is not None:
            reload(weights_iterator=weights)
        else:
            self.model_runner.model.load_weights(weights)
        for _ in weights:  # what was not asked for is taken off the wire
            pass
        self.rollcall_version = json.loads(told)["version"]

    def rollcall_weights_version(self) -> list[int | None]:
        """Version of the weights that were pushed last, whole."""
        return [getattr(self, "rollcall_version", None)]
