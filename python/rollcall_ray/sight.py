"""What each place sees of the programs and folders that the plan needs, told before anything is started."""

import os
import sys
from typing import Any

import ray

from .place import MISSING


def describe_places(plan: dict[str, Any], spots: dict[str, Any]) -> list[str]:
    rows = [["place", "node", "runs", "programs", *plan["paths"]]]
    for name, spot in spots.items():
        found = spot.found
        programs = "; ".join(f"{program}: {answer}" for program, answer in found["programs"].items())
        seen = ["yes" if found["paths"][path] else "no" for path in plan["paths"]]
        rows.append([name, f"{found['node']} ({found['host']})", ", ".join(runs_in(plan, name)), programs, *seen])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]


def runs_in(plan: dict[str, Any], place: str) -> list[str]:
    ranks = plan["trainer"]["ranks"] if plan["trainer"] else []
    return [
        *(["control"] if plan["control"]["place"] == place else []),
        *(f"rank-{at}" for at, name in enumerate(ranks) if name == place),
        *(f"server-{at}" for at, server in enumerate(plan["servers"]) if server["place"] == place),
    ]


def refuse_what_is_missing(plan: dict[str, Any], spots: dict[str, Any], control: Any) -> None:
    wrong = []
    for name, spot in spots.items():
        where = f"{name} on {spot.found['node']}"
        wrong += [f"{where} sees no {path}" for path, seen in spot.found["paths"].items() if not seen]
        wrong += [f"{where}: {program}: {said}" for program, said in spot.found["programs"].items() if said.startswith(MISSING)]
    wrong += unshared(plan, spots, control)
    if wrong:
        sys.exit("rollcall: this run cannot start:\n" + "\n".join(f"  {line}" for line in wrong))


def unshared(plan: dict[str, Any], spots: dict[str, Any], control: Any) -> list[str]:
    """A file that the control plane writes to the run directory must be seen wherever ranks and servers run."""
    directory = plan["shared"]
    if directory is None:
        return []
    mark = f".seen-{plan['id']}"
    failure = ray.get(control.actor.write_mark.remote(directory, mark))
    if failure:
        return [f"{control.name} on {control.found['node']} cannot write to {directory}: {failure}"]
    path = os.path.join(directory, mark)
    others = [spot for spot in spots.values() if spot is not control]
    seen = ray.get([spot.actor.sees.remote(path) for spot in others])
    ray.get(control.actor.remove.remote(path))
    return [
        f"{spot.name} on {spot.found['node']} does not see what {control.name} on {control.found['node']} wrote to "
        f"{directory}; mount it there too, or launch with --no-shared-disk"
        for spot, sees in zip(others, seen)
        if not sees
    ]
