import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { layOut } from './layout.ts';
import { kubeRayManifest, MOUNTED } from './manifest.ts';
import { type Plan, planRun, type RunToPlan, runFile } from './plan.ts';

const layout = layOut({
  trainer: { nodes: 2, ranksPerNode: 8, onGpus: true },
  servers: { replicas: undefined, gpusEach: 4, nodes: 1, gpusPerNode: 8, cpusEach: 2 },
  sharedDisk: true,
});
const run: RunToPlan = {
  ...{
    id: 'first',
    resume: false,
    sharedDisk: true,
    runDir: '/shared/first',
    model: '/shared/model',
    layout,
  },
  ...{ secrets: ['WANDB_API_KEY'], rollcall: '/opt/rollcall', node: 'node', file: `${MOUNTED}/run.yaml` },
  values: {
    'tasks.files': ['/home/me/project/tasks.jsonl'],
    'servers.replicas': 2,
    'cluster.nodes': 2,
    'trainer.options.ranks': 8,
    resume: false,
  },
  trainer: { ranks: 8, recompute: 0.5 },
  server: {
    engine: 'vllm',
    program: ['vllm', '--version'],
    words: ['vllm', 'serve', '--port', '@PORT@'],
    environment: {},
  },
};
const plan = planRun(run);
const manifest = (given: Plan = plan) =>
  parseAllDocuments(
    kubeRayManifest({
      ...{ plan: given, run: runFile(run, '/home/me/project'), image: 'me/run:1', workingDirectory: '/app' },
      ...{ python: 'python3', environment: {}, volume: { claim: 'shared', path: '/shared' } },
    }),
  ).map((document) => document.toJS() as Record<string, unknown>);

/** `int-or-string` and `format` are Kubernetes' own. */
const validate = new Ajv({ strict: false, validateFormats: false }).compile(
  JSON.parse(readFileSync('test/golden/ray/rayjob-schema.json', 'utf8')) as object,
);

test("the RayJob is one by the CRD's schema, and a wrong field is not", () => {
  const [, job] = manifest();
  expect(validate(job), JSON.stringify(validate.errors)).toBe(true);
  const spec = job!['spec'] as Record<string, unknown>;
  expect(validate({ ...job, spec: { ...spec, entryPoint: 'x' } })).toBe(false);
  expect(validate({ ...job, spec: { ...spec, rayClusterSpec: {} } })).toBe(false);
});

test('each kind of place is a group of pods with its GPUs, and secrets are named, not told', () => {
  const [config, job] = manifest();
  const { rayClusterSpec: cluster } = job!['spec'] as { rayClusterSpec: Record<string, Pods[] & Pods> };
  interface Pods {
    groupName: string;
    replicas: number;
    template: { spec: { containers: { resources: { limits: object }; env: object[] }[] } };
  }
  const limits = ({ template }: Pods) => template.spec.containers[0]!.resources.limits;
  expect(limits(cluster['headGroupSpec']!)).toEqual({ cpu: 2, memory: '8Gi' });
  expect(
    cluster['workerGroupSpecs']!.map((group) => [group.groupName, group.replicas, limits(group)]),
  ).toEqual([
    ['trainer', 2, { cpu: 8, memory: '32Gi', 'nvidia.com/gpu': 8 }],
    ['servers', 1, { cpu: 4, memory: '16Gi', 'nvidia.com/gpu': 8 }],
  ]);
  expect(cluster['headGroupSpec']!.template.spec.containers[0]!.env).toEqual([
    { name: 'WANDB_API_KEY', valueFrom: { secretKeyRef: { name: 'rollcall', key: 'WANDB_API_KEY' } } },
  ]);
  expect(JSON.parse((config!['data'] as Record<string, string>)['plan.json']!)).toEqual(plan);
});

test('the control plane is told addresses, and what was placed is no longer among its options', () => {
  expect(plan.control.words.slice(1)).toEqual([
    ...['/opt/rollcall/bin/rollcall.js', 'train', '/etc/rollcall/run.yaml'],
    ...['servers.urls=@SERVERS@', 'trainer.options.url=@TRAINER@'],
  ]);
  expect(parseAllDocuments(runFile(run, '/home/me/project'))[0]!.toJS()).toEqual({
    runDir: '/shared/first',
    tasks: { files: ['tasks.jsonl'] },
    servers: { mode: 'server', engine: 'vllm' },
    trainer: { name: 'torch', options: { weightsDirectory: '/shared/first.weights', recompute: 0.5 } },
  });
  expect(planRun({ ...run, sharedDisk: false }).control.words).toContain('servers.bring=@BRING@');
  expect(() => planRun({ ...run, runDir: 'runs/first' })).toThrow(
    'runDir is runs/first; on a cluster it must be absolute',
  );
});
