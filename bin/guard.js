// Runs one server for a run: `node guard.js PROGRAM WORDS…`. The run holds the other end of standard input, which closes
// when the run ends, however it ends: then the server and all that it started are ended too, and hold no GPU or port.
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const TERM_MS = 5000;
const [program, ...words] = process.argv.slice(2);
const server = spawn(program, words, { detached: true, stdio: ['ignore', 'inherit', 'inherit'] });
/** Of processes that left the server's group; with their start, since numbers are used again. */
const strays = new Map();

function send(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch {
    // it has ended
  }
}

/** Parent and start of a process, where /proc tells. */
function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
    return { parent: Number(fields[1]), group: Number(fields[2]), start: fields[19] };
  } catch {
    return undefined;
  }
}

function findStrays() {
  let names = [];
  try {
    names = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  } catch {
    return; // no /proc: the group alone
  }
  const stats = new Map(names.map((name) => [Number(name), statOf(name)]));
  const isOfServer = (pid) => {
    for (let at = pid; at > 1; at = stats.get(at)?.parent ?? 0) if (at === server.pid) return true;
    return false;
  };
  for (const [pid, stat] of stats) {
    if (stat && stat.group !== server.pid && isOfServer(pid)) strays.set(pid, stat.start);
  }
}

function endAll(signal) {
  if (server.pid !== undefined) send(-server.pid, signal);
  for (const [pid, start] of strays) if (statOf(pid)?.start === start) send(pid, signal);
}

let stopping = false;
function stop() {
  if (stopping) return;
  stopping = true;
  findStrays();
  endAll('SIGTERM');
  setTimeout(() => endAll('SIGKILL'), TERM_MS);
}

server.on('error', (error) => {
  console.error(error.message);
  process.exit(127);
});
server.on('exit', (code, signal) => {
  endAll('SIGKILL'); // what it started does not outlive it
  if (signal) console.error(`ended by ${signal}`);
  process.exit(code ?? 1);
});
process.stdin.on('end', stop).on('error', stop).resume();
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, stop);
