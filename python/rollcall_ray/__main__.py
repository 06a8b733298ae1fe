"""`python -m rollcall_ray PLAN`: the entrypoint of a job that `rollcall launch ray` submits."""

import json
import os
import sys

import ray

from .driver import Driver, say


def main() -> None:
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    missing = [name for name in plan["secrets"] if not os.environ.get(name)]
    if missing:
        sys.exit(f"rollcall: the cluster's environment has no {', '.join(missing)}, which the run was launched with as a secret")
    # Actors get the job's own runtime environment; what they print is for this log, without a prefix.
    ray.init(address="auto", log_to_driver=False)
    driver = Driver(plan)
    driver.open()
    code = driver.run()
    say(f"the run has ended with {code}")
    sys.exit(code)


main()
