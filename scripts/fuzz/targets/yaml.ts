import { resolveRun } from '../../../src/options/resolve-run.ts';
import { readScript } from '../../../src/verl/script.ts';
import type { FuzzTarget } from '../target.ts';
import { temporaryFile } from '../temporary-file.ts';

const write = temporaryFile('run.yaml');
const SCRIPT = '#'.charCodeAt(0);
const around = { environment: { HOME: '/home/x' }, directory: '/', now: new Date(0) };

/** A run as YAML, or verl's shell script where it begins with `#!`, read as far as options. */
export const target: FuzzTarget = {
  name: 'yaml',
  seeds: () => [
    // biome-ignore lint/suspicious/noTemplateCurlyInString: Hydra's own
    'model: m\nsteps: 3\nlimits:\n  turns: 4\n  tokensPerReply: ${oc.env:N,16}\n',
    'a: &a [1, 2]\nb: *a\nc: {d: !!str 1, "e": null}\nf: |\n  text\n  more\n',
    'actor_rollout_ref:\n  model: {path: m}\n  rollout: {n: 5, temperature: 1.0}\ntrainer: {total_epochs: 2}\n',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's own
    '#!/bin/bash\nN=${N:-4}\nexport M=$(pwd)/m\npython3 -m verl.trainer.main_ppo \\\n  data.train_batch_size=$((N * 2)) \\\n  trainer.logger="[console]"\n',
    '#!/bin/bash\nfunction f() {\n  echo x\n}\nif [ -z "$X" ]; then Y=1; fi\npython main_ppo.py a.b=\'c d\' +e=1 ~f\n',
  ],
  words: [
    ...[
      '${',
      '}',
      '&a ',
      '*a',
      '<<: ',
      '!!js ',
      ': ',
      '\n  ',
      '- ',
      '"',
      "'",
      '$((',
      '))',
      '$(',
      '\\\n',
      'null',
      '? ',
    ],
    ...['algorithm.adv_estimator', 'tasks:', 'agent:', 'rewards:', 'mode:', 'checkpoints:', 'servers:'],
  ],
  run: async (bytes) => {
    const text = bytes.toString('utf8');
    if (bytes[0] === SCRIPT) readScript(text, 'run.sh', around);
    else
      await resolveRun({
        file: write(bytes),
        overrides: [],
        environment: around.environment,
        exists: () => true,
      });
  },
};
