import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type LayoutRequest, layOut } from './layout.ts';

const small = fc.integer({ min: 1, max: 4 });
/** Requests that fit: a server's GPUs divide those of its node. */
const requests: fc.Arbitrary<LayoutRequest> = fc
  .record({
    nodes: small,
    each: small,
    times: small,
    serverNodes: fc.integer({ min: 0, max: 3 }),
    onGpus: fc.boolean(),
    replicas: small,
    shared: fc.boolean(),
  })
  .map(({ nodes, each, times, serverNodes, onGpus, replicas, shared }) => ({
    trainer: { nodes: shared ? nodes : 1, ranksPerNode: each * times, onGpus },
    servers: {
      replicas: onGpus ? undefined : replicas,
      gpusEach: onGpus ? each : 0,
      nodes: serverNodes,
      gpusPerNode: serverNodes > 0 ? each * replicas : undefined,
      cpusEach: 2,
    },
    sharedDisk: shared,
  }));

test('every GPU of a node trains once and samples once, and a server never leaves its node', () => {
  fc.assert(
    fc.property(requests, (request) => {
      const { places, ranks, servers } = layOut(request);
      const { trainer, servers: asked } = request;
      for (const { name, gpus } of places) {
        const training = ranks.filter((place) => place === name).length;
        const sampling = servers.filter(({ place }) => place === name).flatMap((server) => server.gpus);
        if (gpus === 0) expect(sampling).toEqual([]);
        else if (asked!.nodes === 0)
          expect([training, sampling.sort((a, b) => a - b)]).toEqual([gpus, range(gpus)]);
        else
          expect(training === gpus ? sampling : sampling.sort((a, b) => a - b)).toEqual(
            training === gpus ? [] : range(gpus),
          );
      }
      expect(ranks).toHaveLength(trainer!.nodes * trainer!.ranksPerNode);
    }),
  );
});

test('a place has a CPU for each of its ranks and for the control plane, and those of its servers', () => {
  fc.assert(
    fc.property(requests, (request) => {
      const { places, ranks, servers, control } = layOut(request);
      const cpus = places.reduce((sum, place) => sum + place.cpus, 0);
      expect(cpus).toBe(1 + ranks.length + 2 * servers.length);
      expect(new Set(places.map(({ name }) => name)).size).toBe(places.length);
      expect(places.map(({ name }) => name)).toContain(control);
      if (!request.sharedDisk) expect(control).toBe(ranks[0]);
    }),
  );
});

test("verl's numbers mean what they mean in verl", () => {
  const trainer = { nodes: 2, ranksPerNode: 8, onGpus: true };
  const servers = { replicas: undefined, gpusEach: 2, nodes: 0, gpusPerNode: undefined, cpusEach: 1 };
  // trainer.nnodes=2 trainer.n_gpus_per_node=8 rollout.tensor_model_parallel_size=2: 16 GPUs train and hold 8 servers.
  const together = layOut({ trainer, servers, sharedDisk: true });
  expect(together.places.map(({ name, gpus }) => [name, gpus])).toEqual([
    ['control', 0],
    ['trainer-0', 8],
    ['trainer-1', 8],
  ]);
  expect(together.servers).toHaveLength(8);
  expect(together.servers[5]).toEqual({ place: 'trainer-1', gpus: [2, 3] });
  // rollout.nnodes=3 rollout.n_gpus_per_node=4 beside it: 12 more GPUs, 6 servers.
  const apart = layOut({ trainer, servers: { ...servers, nodes: 3, gpusPerNode: 4 }, sharedDisk: true });
  expect(apart.places.reduce((sum, { gpus }) => sum + gpus, 0)).toBe(16 + 12);
  expect(apart.servers.map(({ place }) => place)).toEqual([
    ...['servers-0', 'servers-0', 'servers-1', 'servers-1', 'servers-2', 'servers-2'],
  ]);
});

test('what does not fit is refused with the numbers', () => {
  const trainer = { nodes: 1, ranksPerNode: 8, onGpus: true };
  const servers = { replicas: undefined, gpusEach: 3, nodes: 0, gpusPerNode: undefined, cpusEach: 1 };
  const refused = (request: Partial<LayoutRequest>) => () =>
    layOut({ trainer, servers, sharedDisk: true, ...request });
  expect(refused({})).toThrow(
    "servers.tensorParallel is 3; a server's GPUs are of one node, so it must divide the 8 of trainer-0",
  );
  expect(refused({ servers: { ...servers, gpusEach: 4, replicas: 3 } })).toThrow(
    'servers.replicas is 3; 1 nodes of 8 GPUs hold 2 servers of 4',
  );
  expect(refused({ trainer: { ...trainer, nodes: 2 }, sharedDisk: false })).toThrow(
    'needs a disk that all of them see',
  );
});

const range = (count: number) => Array.from({ length: count }, (_, at) => at);
