/**
 * The same plan for KubeRay: a RayJob, which brings its cluster along, and a ConfigMap with the plan and the run.
 * Checked against the schema of the CRD; it was never run.
 */
import { stringify } from 'yaml';
import type { Plan } from './plan.ts';

export interface ManifestOptions {
  readonly plan: Plan;
  /** The run as the control plane reads it. */
  readonly run: string;
  /** Has Ray, this package, the project, and what trainer and servers need. */
  readonly image: string;
  /** The project in the image. */
  readonly workingDirectory: string;
  /** A claim on a volume that all nodes can write to, mounted at `path`; absent: nodes share no disk. */
  readonly volume?: { readonly claim: string; readonly path: string } | undefined;
  readonly python: string;
  readonly environment: Readonly<Record<string, string>>;
}

/** Where the ConfigMap is mounted. */
export const MOUNTED = '/etc/rollcall';
const RUN_FOLDER = { name: 'rollcall', mountPath: MOUNTED, readOnly: true };
/** Of which a pod takes the values of secrets, by their names. */
const SECRET = 'rollcall';
const GIGABYTES_PER_CPU = 4;

export function kubeRayManifest(options: ManifestOptions): string {
  const { plan, run, environment, python, workingDirectory } = options;
  const config = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: plan.id },
    data: { 'run.yaml': run, 'plan.json': `${JSON.stringify(plan, null, 2)}\n` },
  };
  const [control, ...others] = groupsOf(plan);
  const job = {
    apiVersion: 'ray.io/v1',
    kind: 'RayJob',
    metadata: { name: plan.id },
    spec: {
      entrypoint: `${python} -m rollcall_ray ${MOUNTED}/plan.json`,
      jobId: plan.id,
      shutdownAfterJobFinishes: true,
      runtimeEnvYAML: stringify({
        working_dir: workingDirectory,
        env_vars: { PYTHONPATH: `${plan.rollcall}/python`, ...environment },
      }),
      rayClusterSpec: {
        headGroupSpec: { rayStartParams: {}, template: podOf(options, 'ray-head', control!) },
        workerGroupSpecs: others.map((group) => ({
          groupName: group.name,
          ...{ replicas: group.nodes, minReplicas: group.nodes, maxReplicas: group.nodes },
          rayStartParams: {},
          template: podOf(options, 'ray-worker', group),
        })),
      },
    },
  };
  const note = [
    '# Written by rollcall launch ray --kuberay. Checked against the schema of the CRD, never run.',
    `# Values of secrets are taken from the Secret "${SECRET}", by their names.`,
  ];
  return `${note.join('\n')}\n${stringify(config)}---\n${stringify(job)}`;
}

interface Group {
  readonly name: string;
  readonly nodes: number;
  readonly cpus: number;
  readonly gpus: number;
}

/** The head, with the control plane where it has a place of its own; then one group of pods per kind of place. */
function groupsOf({ places }: Plan): Group[] {
  const groups = new Map<string, Group>([['head', { name: 'head', nodes: 1, cpus: 1, gpus: 0 }]]);
  for (const { name, cpus, gpus } of places) {
    const kind = name === 'control' ? 'head' : name.replace(/-\d+$/, '');
    const before = groups.get(kind) ?? { name: kind, nodes: 0, cpus: 0, gpus: 0 };
    const nodes = kind === 'head' ? 1 : before.nodes + 1;
    const most = kind === 'head' ? 1 + cpus : Math.max(before.cpus, cpus);
    groups.set(kind, { name: kind, nodes, cpus: most, gpus: Math.max(before.gpus, gpus) });
  }
  return [...groups.values()];
}

function podOf({ plan, image, volume }: ManifestOptions, name: string, { cpus, gpus }: Group) {
  const resources = {
    cpu: cpus,
    memory: `${cpus * GIGABYTES_PER_CPU}Gi`,
    ...(gpus > 0 ? { 'nvidia.com/gpu': gpus } : {}),
  };
  const env = plan.secrets.map((secret) => ({
    name: secret,
    valueFrom: { secretKeyRef: { name: SECRET, key: secret } },
  }));
  return {
    spec: {
      containers: [
        {
          ...{ name, image, resources: { limits: resources, requests: resources } },
          ...(env.length > 0 ? { env } : {}),
          volumeMounts: [RUN_FOLDER, ...(volume ? [{ name: 'shared', mountPath: volume.path }] : [])],
        },
      ],
      volumes: [
        { name: RUN_FOLDER.name, configMap: { name: plan.id } },
        ...(volume ? [{ name: 'shared', persistentVolumeClaim: { claimName: volume.claim } }] : []),
      ],
    },
  };
}
