/**
 * Which processes share a node. A place is a part of one node: what is in a place sees the same GPUs.
 *
 * In verl's words: `trainer.nnodes` × `trainer.n_gpus_per_node` GPUs train. With `rollout.nnodes` 0 the same GPUs sample, in
 * groups of `rollout.tensor_model_parallel_size`; otherwise `rollout.nnodes` × `rollout.n_gpus_per_node` further ones do.
 */
import { ConfigError } from '../errors.ts';

export interface LayoutRequest {
  /** Absent: the control plane trains by itself. */
  readonly trainer?: {
    readonly nodes: number;
    /** Processes of a node, one per GPU. */
    readonly ranksPerNode: number;
    readonly onGpus: boolean;
  };
  /** Absent: the control plane samples by itself, or servers run already. */
  readonly servers?: {
    /** How many were asked for; undefined: as many as the GPUs hold. */
    readonly replicas: number | undefined;
    /** GPUs of one server; 0: it runs on CPUs. */
    readonly gpusEach: number;
    /** 0: on the GPUs of the trainer. */
    readonly nodes: number;
    readonly gpusPerNode: number | undefined;
    readonly cpusEach: number;
  };
  /** Without one the control plane is beside rank 0, so that both see the run directory. */
  readonly sharedDisk: boolean;
}

export interface PlacedServer {
  readonly place: string;
  /** Which of its place's GPUs. */
  readonly gpus: readonly number[];
}

export interface Layout {
  readonly places: readonly { readonly name: string; readonly cpus: number; readonly gpus: number }[];
  readonly control: string;
  /** Place of each rank. */
  readonly ranks: readonly string[];
  readonly servers: readonly PlacedServer[];
}

interface Room {
  readonly name: string;
  cpus: number;
  readonly gpus: number;
}

export function layOut({ trainer, servers, sharedDisk }: LayoutRequest): Layout {
  const rooms: Room[] = [];
  const add = (name: string, gpus: number): Room => {
    const room = { name, cpus: 0, gpus };
    rooms.push(room);
    return room;
  };
  const nodes = trainer === undefined ? 0 : trainer.nodes;
  if (!sharedDisk && nodes > 1) {
    throw new ConfigError(
      `cluster.nodes is ${nodes}; ranks of several nodes write one checkpoint together, which needs a disk that all of them see`,
    );
  }
  const own = sharedDisk || nodes === 0 ? add('control', 0) : undefined;
  const training = Array.from({ length: nodes }, (_, node) =>
    add(`trainer-${node}`, trainer!.onGpus ? trainer!.ranksPerNode : 0),
  );
  const ranks = training.flatMap((room) => Array.from({ length: trainer!.ranksPerNode }, () => room));
  const placed = servers === undefined ? [] : placeServers(servers, training, add);
  const control = own ?? training[0]!;
  for (const room of [control, ...ranks]) room.cpus += 1;
  for (const { room } of placed) room.cpus += servers!.cpusEach;
  return {
    places: rooms,
    control: control.name,
    ranks: ranks.map(({ name }) => name),
    servers: placed.map(({ room, gpus }) => ({ place: room.name, gpus })),
  };
}

function placeServers(
  { replicas, gpusEach, nodes, gpusPerNode }: NonNullable<LayoutRequest['servers']>,
  training: readonly Room[],
  add: (name: string, gpus: number) => Room,
): { readonly room: Room; readonly gpus: readonly number[] }[] {
  if (gpusEach === 0)
    return Array.from({ length: replicas ?? 1 }, (_, at) => ({ room: add(`servers-${at}`, 0), gpus: [] }));
  const count = gpusPerNode ?? training[0]?.gpus ?? 0;
  const hosts =
    nodes === 0 ? training : Array.from({ length: nodes }, (_, node) => add(`servers-${node}`, count));
  const placed = hosts.flatMap((room) => {
    if (room.gpus < gpusEach || room.gpus % gpusEach !== 0) {
      throw new ConfigError(
        `servers.tensorParallel is ${gpusEach}; a server's GPUs are of one node, so it must divide the ${room.gpus} of ${room.name}`,
      );
    }
    return Array.from({ length: room.gpus / gpusEach }, (_, at) => ({
      room,
      gpus: Array.from({ length: gpusEach }, (_, gpu) => at * gpusEach + gpu),
    }));
  });
  if (placed.length === 0)
    throw new ConfigError(
      'servers have no GPUs: set trainer.options.ranks, or cluster.serverNodes and cluster.serverGpusPerNode',
    );
  if (replicas !== undefined && replicas !== placed.length) {
    throw new ConfigError(
      `servers.replicas is ${replicas}; ${hosts.length} nodes of ${hosts[0]!.gpus} GPUs hold ${placed.length} servers of ${gpusEach}: leave it out, or set cluster.serverNodes and cluster.serverGpusPerNode`,
    );
  }
  return placed;
}
