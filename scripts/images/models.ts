/** The models that see with which `npm run prove images` works. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { createDemonstration } from '../../examples/look/demonstrations.ts';
import { createLookModel, type LookSetup } from '../../examples/look/look.ts';
import { PACES } from '../../examples/look/recipe.ts';
import { writeTokenizer } from '../../examples/look/tokenizer.ts';
import { learn } from '../../examples/look/warm-start.ts';

const execute = promisify(execFile);

/** A tiny random Qwen2.5-VL, made by `transformers`. */
export async function randomModel(python: string, directory: string): Promise<string> {
  const [model, tokenizer] = [join(directory, 'random'), join(directory, 'tokenizer')];
  await writeTokenizer(tokenizer);
  const script = fileURLToPath(new URL('./make-model.py', import.meta.url));
  await execute(python, ['-W', 'ignore', script, model, tokenizer]);
  return model;
}

/** The model of examples/look after some demonstrations only: it calls the tools, and answers wrongly. */
export async function brieflyTaught(setup: LookSetup, demonstrations: number): Promise<string> {
  const taught = join(setup.directory, 'briefly-taught');
  const course = { kind: 'demonstrations', count: demonstrations, pace: PACES.demonstrations };
  await learn(setup, await createLookModel(setup), taught, { ...course, create: createDemonstration });
  return taught;
}
