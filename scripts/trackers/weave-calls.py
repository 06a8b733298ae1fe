"""Weave's own two halves, for `npm run prove trackers`; JSON comes in and goes out.

client: sends a trajectory as verl does, with PyPI's client. calls: what W&B's server makes of OTLP bodies, by the code that
its package shipped up to 0.52 (`weave.trace_server.opentelemetry`).
"""
import base64
import json
import sys


def client(given):
    import weave

    sender = weave.init(given["project"])
    attributes = given["attributes"]
    root = sender.create_call(op="agent_loop", inputs=given["inputs"], attributes=attributes)
    for child in given["children"]:
        call = sender.create_call(op=child["op"], inputs=child["inputs"], parent=root, attributes=attributes)
        error = child.get("exception")
        sender.finish_call(call, output=child.get("output"), exception=ValueError(error) if error else None)
    sender.finish_call(root, output=given["output"])
    sender.flush()


def calls(given):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from weave.trace_server.opentelemetry.python_spans import Resource, Span

    made = []
    for body in given["bodies"]:
        request = ExportTraceServiceRequest()
        request.ParseFromString(base64.b64decode(body))
        for resources in request.resource_spans:
            resource = Resource.from_proto(resources.resource)
            for scope in resources.scope_spans:
                for span in scope.spans:
                    start, end = Span.from_proto(span, resource).to_call(given["project"])
                    halves = [json.loads(half.model_dump_json()) for half in (start, end)]
                    made.append({key: half[key] for half in halves for key in half if half[key] is not None})
    for call in made:
        call.pop("otel_dump", None)
    return made


given = json.load(sys.stdin)
result = client(given) if sys.argv[1] == "client" else calls(given)
print("\n" + json.dumps(result))
