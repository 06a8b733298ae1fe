import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { SlurmCluster } from './slurm.ts';

/** What Slurm 22.05 printed of a job (`scontrol show job --oneliner`). */
const RECORDED =
  'JobId=1 JobName=hostname UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0 Account=(null) QOS=(null) ' +
  'JobState=COMPLETED Reason=None Dependency=(null) Requeue=1 Restarts=0 BatchFlag=0 Reboot=0 ExitCode=0:0 RunTime=00:00:01 ' +
  'TimeLimit=UNLIMITED TimeMin=N/A SubmitTime=2026-11-16T18:24:37 PreemptTime=None Scheduler=Main Partition=low ' +
  'AllocNode:Sid=localhost:28679 ReqNodeList=(null) ExcNodeList=(null) NodeList=rc[1-4] BatchHost=rc1 NumNodes=4 ' +
  'ReqB:S:C:T=0:0:*:* TRES=cpu=4,node=4,billing=4 Socks/Node=* Command=hostname WorkDir=/tmp/sl Power= ';

const path = process.env['PATH'];
let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-slurm-'));
  process.env['PATH'] = `${folder}:${path}`;
});
afterEach(async () => {
  process.env['PATH'] = path;
  await rm(folder, { recursive: true });
});

async function command(name: string, body: string): Promise<void> {
  await writeFile(join(folder, name), `#!/bin/bash\n${body}\n`);
  await chmod(join(folder, name), 0o755);
}

test('a job is told in its state, and in the words of Slurm', async () => {
  await command('scontrol', `cat <<'END'\n${RECORDED}\nEND`);
  expect(await new SlurmCluster().status('1')).toEqual({
    id: '1',
    state: 'succeeded',
    message: 'COMPLETED, on rc[1-4]',
  });
  const waiting = RECORDED.replace('COMPLETED', 'PENDING')
    .replace('Reason=None', 'Reason=BeginTime')
    .replace('Restarts=0', 'Restarts=2')
    .replace('NodeList=rc[1-4]', 'NodeList=(null)');
  await command('scontrol', `cat <<'END'\n${waiting}\nEND`);
  expect(await new SlurmCluster().status('1')).toMatchObject({
    state: 'waiting',
    message: 'PENDING, BeginTime, restarted 2 times',
  });
});

test('a job that Slurm has forgotten, and a machine without Slurm, are told as that', async () => {
  await command('scontrol', 'echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1');
  await expect(new SlurmCluster().status('7')).rejects.toThrow('Slurm knows no job 7');
  process.env['PATH'] = folder;
  await expect(new SlurmCluster().stop('7')).rejects.toThrow(
    'there is no scancel here; run this on a login node',
  );
});
