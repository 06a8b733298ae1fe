/**
 * The quick start's GRPO run on the near host, over servers (and, where asked, a trainer) on the far one:
 * `run.ts MODEL RUN_DIR STEPS URLS [TRAINER]`. Prints a line of JSON at each moment at which `prove network` may cut the link, and
 * waits for an answer there.
 */
import { createInterface } from 'node:readline';
import { embedded, servers, train } from 'rollcall';
import { torch } from 'rollcall/torch';
import { trainOptions } from '../../examples/quickstart/train-options.ts';
import type { ServerFactory } from '../../src/gateway/server-factory.ts';

const [model, runDir, steps, urls, trainer] = process.argv.slice(2);
const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = (line: object) => console.log(JSON.stringify(line));
let step = 0;

/** Tells the proof where the run is, and goes on when it has answered. */
async function at(moment: string): Promise<void> {
  say({ moment, step });
  await answers.next();
}

const far = servers({
  urls: urls!.split(','),
  engine: 'rollcall',
  apiKey: process.env['ROLLCALL_API_KEY'],
  log: (line) => say({ log: line }),
});
/** New weights are announced before the request that sends them. */
const announced: ServerFactory = {
  ...far,
  open: async (...given) => {
    const opened = await far.open(...given);
    const [first] = opened;
    const update = first!.update.bind(first);
    first!.update = async (...weights) => {
      await at('sync');
      return update(...weights);
    };
    return opened;
  },
};
const options = trainOptions({
  ...{ seed: 1, variant: 'short', steps: Number(steps), model: model!, runDir: runDir! },
  engine: {
    servers: announced,
    trainer: trainer === undefined ? embedded({ threads: 1 }).trainer : torch({ url: trainer }),
  },
});
let half: number | undefined;
for await (const { metrics } of train({
  ...options,
  tasksPerStep: 8,
  evaluation: { every: 0, before: false },
  onProgress: ({ step: now, phase, done, total }) => {
    step = now;
    if (phase === 'rollout' && done >= total / 2 && half !== now) {
      half = now;
      say({ moment: 'rollout', step: now });
    }
    if (phase === 'training' && done < total) say({ moment: 'training', step: now });
  },
})) {
  say({ metrics });
}
process.exit(0);
