"""Reads a run back with MLflow's and TensorBoard's own packages: prove-trackers.py URI BOARD prints JSON."""
import json
import sys

import mlflow
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

uri, board = sys.argv[1:]
mlflow.set_tracking_uri(uri)
client = mlflow.MlflowClient()
experiment = client.get_experiment_by_name("proof")
runs = client.search_runs([experiment.experiment_id])
run = runs[0]


def history(name):
    points = sorted(client.get_metric_history(run.info.run_id, name), key=lambda point: point.step)
    return [[point.step, point.value] for point in points]


def artifact(name):
    return mlflow.artifacts.load_text(f"{run.info.artifact_uri}/{name}")


def trace(found):
    root = next(span for span in found.data.spans if span.parent_id is None)
    spans = [
        {
            "type": span.span_type,
            "ids": span.attributes.get("rollcall.response_ids", []),
            "outputs": json.dumps(span.outputs) if span.outputs else "",
        }
        for span in sorted(found.data.spans, key=lambda span: span.start_time_ns)
    ]
    return {
        "trajectory": root.attributes["rollcall.trajectory"],
        "reward": root.attributes["rollcall.reward"],
        "run": run.info.run_id if found.info.trace_id in linked else "",
        "tags": found.info.tags,
        "spans": spans,
    }


place = [experiment.experiment_id]
traces = client.search_traces(locations=place, max_results=500)
of_run = client.search_traces(locations=place, run_id=run.info.run_id, max_results=500)
linked = {found.info.trace_id for found in of_run}
events = EventAccumulator(board, size_guidance={"scalars": 0})
events.Reload()
print(
    json.dumps(
        {
            "mlflow": {
                "runs": len(runs),
                "runId": run.info.run_id,
                "status": run.info.status,
                "metrics": {name: history(name) for name in run.data.metrics},
                "params": run.data.params,
                "artifacts": {item.path: artifact(item.path) for item in client.list_artifacts(run.info.run_id)},
                "traces": [trace(found) for found in traces],
            },
            "tensorboard": {
                tag: [[event.step, event.value] for event in events.Scalars(tag)]
                for tag in events.Tags()["scalars"]
            },
        }
    )
)
