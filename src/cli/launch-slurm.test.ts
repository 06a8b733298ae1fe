import { expect, test } from 'vitest';
import { resolveRun } from '../options/resolve-run.ts';
import { slurmPlan } from './launch-slurm.ts';

const plan = async (...overrides: string[]) =>
  slurmPlan(
    await resolveRun({
      overrides: ['model=M', 'tasks.files=[t.jsonl]', 'servers.engine=vllm', ...overrides],
    }),
    ['run.yaml'],
    { replicasPerNode: 1, sbatch: [] },
    '/work',
  );

test("verl's words give the nodes: two of the trainer, two of servers with four of two GPUs each", async () => {
  const { servers, trainer, control } = await plan(
    'actor_rollout_ref.actor.strategy=fsdp2',
    'trainer.nnodes=2',
    'trainer.n_gpus_per_node=8',
    'cluster.serverNodes=2',
    'actor_rollout_ref.rollout.tensor_model_parallel_size=2',
  );
  expect(servers).toMatchObject({ replicas: 8, perNode: 4, gpusEach: 2, gpusPerNode: 8 });
  expect(servers!.command).toContain('0.0.0.0');
  expect(servers!.command).not.toContain('--port'); // each node gives its own
  expect(trainer).toMatchObject({ nodes: 2, ranksPerNode: 8, gpusPerNode: 8 });
  expect(control).toContain('servers.weightsDirectory=/work/runs/rollcall/run/launch/weights');
});

test('what a job cannot place is refused by name', async () => {
  await expect(plan()).rejects.toThrow('cluster.serverNodes is 0');
  const nodes = ['cluster.serverNodes=1', 'cluster.serverGpusPerNode=8'];
  await expect(plan(...nodes, 'servers.tensorParallel=3')).rejects.toThrow('it must divide the 8');
  await expect(plan(...nodes, 'servers.replicas=9')).rejects.toThrow('hold 8 servers of 1');
});

test('what runs in the control plane, or already, gets no steps', async () => {
  expect(await plan('servers.engine=embedded')).not.toHaveProperty('servers');
  const there = await plan(
    ...[
      'servers.mode=server',
      'servers.urls=[http://a:1]',
      'trainer.name=torch',
      'trainer.options.url=tcp://b:2',
    ],
  );
  expect([there.servers, there.trainer]).toEqual([undefined, undefined]);
});
