"""The driver of a run: the entrypoint of its Ray job.

It asks for one placement group, starts a place in each bundle and the plan's processes in the places, and starts again what
ends before the control plane does. It decides nothing about training: the control plane sees servers and a trainer at fixed
addresses that fail and come back, as docs/servers.md and docs/torch.md describe.
"""

import os
import secrets
import sys
import time
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayActorError
from ray.util.placement_group import PlacementGroup, placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .place import Place
from .sight import describe_places, refuse_what_is_missing

POLL_SECONDS = 0.5
LONGEST_WAIT = 30
SECONDS_TO_PLACE = 600
SECONDS_PER_CALL = 60
# A lost place may be noticed before its processes have ended.
SECONDS_TO_BE_GONE = 10
CALLS_AT_ONCE = 16
RemotePlace = ray.remote(Place)


def say(line: str) -> None:
    print(line, flush=True)


def bundle(place: dict[str, Any]) -> dict[str, float]:
    return {"CPU": place["cpus"], **({"GPU": place["gpus"]} if place["gpus"] else {})}


class Spot:
    """A place of the plan and its present actor. `found` is what the actor says of its node, once it has one."""

    def __init__(self, place: dict[str, Any], index: int, group: PlacementGroup, plan: dict[str, Any]):
        self.place, self.index, self.group, self.plan = place, index, group, plan
        self.name = place["name"]
        self.create()

    def create(self) -> None:
        """Ray starts it when the bundle has a node; after a node was lost, when its bundle is on another."""
        strategy = PlacementGroupSchedulingStrategy(self.group, placement_group_bundle_index=self.index)
        self.actor = RemotePlace.options(
            num_cpus=self.place["cpus"],
            num_gpus=self.place["gpus"],
            scheduling_strategy=strategy,
            max_concurrency=CALLS_AT_ONCE,
        ).remote(self.plan["rollcall"])
        self.found: dict[str, Any] | None = None
        self.polling: Any = None
        self.since = time.monotonic()
        self.ask()

    def ask(self) -> None:
        self.coming = self.actor.describe.remote(self.place["programs"], self.plan["paths"])


class Child:
    """A process of the plan."""

    def __init__(self, name: str, spot: Spot):
        self.name, self.spot = name, spot
        self.runs, self.starts, self.not_before = False, 0, 0.0
        # Of its present start, so that news of the one before is not taken for news of this.
        self.process = ""
        # Host and port where it listens now.
        self.address: tuple[str, int] | None = None

    def ended(self) -> None:
        self.runs, self.address = False, None
        self.not_before = time.monotonic() + min(2 ** max(0, self.starts - 1), LONGEST_WAIT)

    def may_start(self) -> bool:
        return not self.runs and self.spot.found is not None and self.not_before <= time.monotonic()


class Driver:
    def __init__(self, plan: dict[str, Any]):
        self.plan = plan
        key = secrets.token_hex(24)
        self.keys = {"ROLLCALL_API_KEY": key, "VLLM_API_KEY": key, "ROLLCALL_TORCH_TOKEN": secrets.token_hex(24)}
        self.group = placement_group([bundle(place) for place in plan["places"]], strategy="SPREAD")
        self.code: int | None = None
        self.ports: list[int] = []
        self.stopping: list[Any] = []

    def open(self) -> None:
        wanted = ", ".join(f"{place['name']} {bundle(place)}" for place in self.plan["places"])
        say(f"asking Ray for {wanted}")
        try:
            ray.get(self.group.ready(), timeout=SECONDS_TO_PLACE)
        except GetTimeoutError:
            sys.exit(f"rollcall: no room for that in {SECONDS_TO_PLACE} s; the cluster has {ray.cluster_resources()}")
        self.spots = {
            place["name"]: Spot(place, index, self.group, self.plan) for index, place in enumerate(self.plan["places"])
        }
        self.control = Child("control", self.spots[self.plan["control"]["place"]])
        places = self.plan["trainer"]["ranks"] if self.plan["trainer"] else []
        self.ranks = [Child(f"rank-{at}", self.spots[name]) for at, name in enumerate(places)]
        self.servers = [Child(f"server-{at}", self.spots[one["place"]]) for at, one in enumerate(self.plan["servers"])]
        for spot in self.spots.values():
            spot.found = ray.get(spot.coming, timeout=SECONDS_TO_PLACE)
        for line in describe_places(self.plan, self.spots):
            say(line)
        refuse_what_is_missing(self.plan, self.spots, self.control.spot)

    def run(self) -> int:
        """Until the control plane has ended by itself: its exit code."""
        while self.code is None:
            for spot in self.spots.values():
                self.look(spot)
            if self.code is None:
                self.start_what_should_run()
                time.sleep(POLL_SECONDS)
        return self.code

    # What has happened.

    def look(self, spot: Spot) -> None:
        try:
            if spot.found is None:
                self.await_place(spot)
            else:
                self.poll(spot)
        except ActorUnavailableError:
            # Ray does not know yet whether it is lost.
            if spot.found is None:
                spot.ask()
        except RayActorError as error:
            say(f"{spot.name} is lost ({str(error).splitlines()[0]}); it is placed again")
            for child in self.children(spot):
                self.lost(child, "its place is lost")
                child.not_before = time.monotonic() + SECONDS_TO_BE_GONE
            spot.create()

    def await_place(self, spot: Spot) -> None:
        done, _ = ray.wait([spot.coming], timeout=0)
        if done:
            spot.found = ray.get(done[0])
            say(f"{spot.name} is on {spot.found['node']} now")
        elif time.monotonic() - spot.since > SECONDS_TO_PLACE and not self.is_spare(spot):
            say(f"the cluster had no room for {spot.name} in {SECONDS_TO_PLACE} s; rollcall launch --resume continues the run")
            self.code = 1

    def poll(self, spot: Spot) -> None:
        spot.polling = spot.polling or spot.actor.poll.remote()
        done, _ = ray.wait([spot.polling], timeout=0)
        if not done:
            return
        spot.polling = None
        told = ray.get(done[0])
        for name, (_, lines) in told.items():
            for line in lines:
                say(line if name.startswith("control") else f"{name}: {line}")
        for child in self.children(spot):
            code, _ = told.get(child.process, (None, []))
            if code is not None and child.runs:
                self.lost(child, f"signal {code - 128}" if code > 128 else f"exit code {code}", code)

    def lost(self, child: Child, why: str, code: int | None = None) -> None:
        if not child.runs:
            return
        child.ended()
        if child is self.control:
            self.lost_control(why, code)
        elif child in self.ranks:
            self.end_ranks(f"{child.name} has ended ({why})")
        else:
            say(f"{child.name} has ended ({why}); it is started again")
        self.tell_addresses()

    def lost_control(self, why: str, code: int | None) -> None:
        """An exit is the run's own. A signal or a lost node is not, and the run goes on from its last checkpoint."""
        if code is not None and code < 128:
            self.code = code
        elif self.control.starts > self.plan["restarts"]:
            say(f"the control plane has ended ({why}) after {self.plan['restarts']} restarts")
            self.code = code or 1
        else:
            # A worker group lives as long as its client.
            self.end_ranks(f"the control plane has ended ({why}); it is started again and resumes")

    def end_ranks(self, why: str) -> None:
        """Ranks are of use only together."""
        still = [rank for rank in self.ranks if rank.runs]
        say(f"{why}; the trainer's ranks are started again" if self.ranks else why)
        for rank in still:
            rank.ended()
            self.stopping.append(rank.spot.actor.stop.remote(rank.process))

    def is_spare(self, spot: Spot) -> bool:
        """The run goes on without a server, as long as there is another."""
        return all(child in self.servers for child in self.children(spot))

    def children(self, spot: Spot) -> list[Child]:
        return [child for child in [self.control, *self.ranks, *self.servers] if child.spot is spot]

    # What should run.

    def start_what_should_run(self) -> None:
        before = [child.address for child in [*self.servers, *self.ranks]]
        if self.control.may_start():
            self.start_control()
        if self.ranks and all(rank.may_start() for rank in self.ranks):
            self.start_ranks()
        for planned, server in zip(self.plan["servers"], self.servers):
            if server.may_start():
                self.start_server(planned, server)
        if before != [child.address for child in [*self.servers, *self.ranks]]:
            self.tell_addresses()

    def start_server(self, planned: dict[str, Any], server: Child) -> None:
        port = self.ask(server.spot, "free_port")
        gpus = [server.spot.found["gpus"][gpu] for gpu in planned["gpus"]]
        self.start(server, planned, {"@PORT@": str(port)}, visible(gpus))
        server.address = (server.spot.found["node"], port) if server.runs else None

    def start_ranks(self) -> None:
        """As torchrun would: one process a device, which meet at the node of rank 0."""
        ray.wait(self.stopping, num_returns=len(self.stopping), timeout=SECONDS_PER_CALL) if self.stopping else None
        self.stopping = []
        first = self.ranks[0]
        meeting, port = self.ask(first.spot, "free_port"), self.ask(first.spot, "free_port")
        spots = [rank.spot for rank in self.ranks]
        for number, rank in enumerate(self.ranks):
            environment = {
                **visible(rank.spot.found["gpus"]),
                "RANK": str(number),
                "LOCAL_RANK": str(spots[:number].count(rank.spot)),
                "WORLD_SIZE": str(len(self.ranks)),
                "MASTER_ADDR": first.spot.found["node"],
                "MASTER_PORT": str(meeting),
            }
            self.start(rank, self.plan["trainer"], {"@PORT@": str(port), "@PYTHON@": sys.executable}, environment)
        if all(rank.runs for rank in self.ranks):
            first.address = (first.spot.found["node"], port)
        else:
            self.end_ranks("not every rank could be started")

    def start_control(self) -> None:
        spot = self.control.spot
        ports = self.ask(spot, "open_addresses", len(self.servers) + 1)
        bringing = self.ask(spot, "open_bringing")
        if ports is None or bringing is None:
            return
        self.ports = ports
        marks = {
            "@SERVERS@": f"[{','.join(f'http://127.0.0.1:{port}' for port in ports[:-1])}]",
            "@TRAINER@": f"tcp://127.0.0.1:{ports[-1]}",
            "@BRING@": f"http://127.0.0.1:{bringing}",
        }
        begun = self.control.starts > 0 and self.ask(spot, "sees", os.path.join(self.plan["runDir"], "options.json"))
        planned = self.plan["control"]
        resume = ["--resume"] if self.plan["resume"] or begun else []
        self.tell_addresses()
        self.start(self.control, {**planned, "words": [*planned["words"], *resume]}, marks, {})

    def start(self, child: Child, planned: dict[str, Any], marks: dict[str, str], environment: dict[str, str]) -> None:
        words = planned["words"]
        for mark, value in marks.items():
            words = [word.replace(mark, value) for word in words]
        given = {**planned["environment"], **environment, **self.keys}
        process = f"{child.name}.{child.starts}"
        if self.ask(child.spot, "start", process, words, given):
            child.runs, child.process = True, process
            child.starts += 1

    def tell_addresses(self) -> None:
        """Where servers and rank 0 are now, and which places take and give folders, to the control plane's place."""
        if not self.ports:
            return
        children = [*self.servers, *self.ranks[:1]]
        targets = {port: child.address for port, child in zip(self.ports, children)}
        takers = {port: child.spot.actor for port, child in zip(self.ports, self.servers) if child.address}
        source = self.ranks[0].spot.actor if self.ranks else self.control.spot.actor
        self.ask(self.control.spot, "lead", targets, takers, source)

    def ask(self, spot: Spot, method: str, *arguments: Any) -> Any:
        """None where the place is lost, which is dealt with when it is next looked at, or not there yet."""
        if spot.found is None:
            return None
        try:
            return ray.get(getattr(spot.actor, method).remote(*arguments), timeout=SECONDS_PER_CALL)
        except (RayActorError, GetTimeoutError):
            return None


def visible(gpus: list[str]) -> dict[str, str]:
    return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {}
