/** `rollcall launch`: a run as a job of a cluster. Each launcher adds its own subcommand; the others ask about a job. */
import type { Command } from 'commander';
import { registerJob } from './launch-job.ts';
import { registerRay } from './launch-ray.ts';
import { registerLaunchSlurm } from './launch-slurm.ts';

export function registerLaunch(program: Command): void {
  const launch = program.command('launch').description('run on a cluster, and ask about what runs there');
  registerRay(launch);
  registerLaunchSlurm(launch);
  registerJob(launch);
}
