"""What MLflow's client and TensorBoard's reader have of a run with images: `read-images.py MLFLOW_URI BOARD`; JSON goes out."""
import hashlib
import json
import sys

import mlflow
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

uri, board = sys.argv[1:]
digest = lambda data: hashlib.sha256(data).hexdigest()
mlflow.set_tracking_uri(uri)
client = mlflow.MlflowClient()
(run,) = [
    run
    for experiment in client.search_experiments()
    for run in client.search_runs([experiment.experiment_id])
    if run.info.run_name == "pictures"
]
logged = {}
for entry in client.list_artifacts(run.info.run_id, "images"):
    path = mlflow.artifacts.download_artifacts(run_id=run.info.run_id, artifact_path=entry.path)
    logged[entry.path] = digest(open(path, "rb").read())
events = EventAccumulator(board, size_guidance={"images": 0, "tensors": 0}).Reload()
print(
    json.dumps(
        {
            "tag": run.data.tags.get("mlflow.loggedImages"),
            "mlflow": logged,
            "tensorboard": {
                tag: [digest(image.encoded_image_string) for image in events.Images(tag)] for tag in events.Tags()["images"]
            },
            "text": [
                value.tensor_proto.string_val[0].decode()
                for tag in events.Tags()["tensors"]
                for value in events.Tensors(tag)
            ],
        }
    )
)
