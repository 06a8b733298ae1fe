/** `rollcall launch status|logs|stop|attach`: about a job of a cluster, whichever launcher submitted it. */
import { type Command, Option } from 'commander';
import { ConfigError, EngineError } from '../errors.ts';
import { followJob, type Job, type Launcher } from '../launch/launcher.ts';
import { RayCluster } from '../launch/ray.ts';
import { isSlurmJob, SlurmCluster } from '../launch/slurm.ts';
import { realClock } from '../lib/clock.ts';

export interface ClusterFlags {
  readonly address?: string;
}

export function registerJob(launch: Command): void {
  jobCommand(launch, 'status', 'whether a job waits, runs or has ended', async (cluster, id) => {
    console.log(describe(await cluster.status(id)));
  });
  jobCommand(launch, 'logs', 'what a job has printed so far', async (cluster, id) => {
    process.stdout.write(await cluster.logs(id));
  });
  jobCommand(launch, 'stop', 'end a job', async (cluster, id) => {
    await cluster.stop(id);
    console.log(`${id} was asked to end; rollcall launch status ${id} tells when it has`);
  });
  jobCommand(launch, 'attach', 'print what a job prints until it ends; Ctrl-C leaves it running', attach);
}

/** The address of a Ray cluster's dashboard. */
export const addressOption = () =>
  new Option('--address <url>', "the dashboard of a Ray cluster's head, such as http://head:8265").env(
    'RAY_API_SERVER_ADDRESS',
  );

/** Ray's own variables are understood: RAY_API_SERVER_ADDRESS and RAY_AUTH_TOKEN. */
export function rayCluster({ address }: ClusterFlags): RayCluster {
  if (address === undefined) throw new ConfigError('--address is missing; give http://HOST:8265 of the head');
  return new RayCluster({ address, token: process.env['RAY_AUTH_TOKEN'] });
}

/** Follows a job to its end, and fails as it does. */
export async function attach(cluster: Launcher, id: string): Promise<void> {
  const job = await followJob(cluster, id, {
    clock: realClock(),
    write: (text) => process.stdout.write(text),
  });
  if (job.state !== 'succeeded') throw new EngineError(describe(job));
  console.log(describe(job));
}

const describe = ({ id, state, message }: Job) => `${id}: ${state}${message === '' ? '' : ` (${message})`}`;

function jobCommand(
  launch: Command,
  name: string,
  description: string,
  act: (cluster: Launcher, id: string) => Promise<void>,
): void {
  launch
    .command(name)
    .description(description)
    .argument('<job>', 'as `rollcall launch` printed it')
    .addOption(addressOption())
    .action((id: string, flags: ClusterFlags) => act(clusterOf(id, flags), id));
}

/** Which cluster a job is of, by its id. */
function clusterOf(id: string, flags: ClusterFlags): Launcher {
  return isSlurmJob(id) ? new SlurmCluster() : rayCluster(flags);
}
