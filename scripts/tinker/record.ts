/**
 * Records what a real Tinker server answers: `node --import ./bin/register.js scripts/tinker/record.ts URL MODEL OUT`, for a
 * server with the model MODEL. test/tinker.test.ts holds the stand-in against it.
 */
import { writeFile } from 'node:fs/promises';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import { tinker } from '../../src/tinker/tinker.ts';
import { startRecorder } from '../../test/servers/recorder.ts';

const [url, model, out] = process.argv.slice(2);
if (!url || !model || !out) throw new Error('give URL, MODEL and OUT');
const recorder = await startRecorder(url);
const rented = tinker({ url: recorder.url, model, lora: { rank: 4 }, server: 'skyrl-jax' });
const trainer = await rented.open('policy', model);
const [server] = await rented.servers.open(model);
const rows = [
  { ids: Int32Array.of(1, 2, 3, 4, 5, 6), targets: Uint8Array.of(0, 0, 0, 1, 1, 1) },
  { ids: Int32Array.of(2, 3, 1, 4), targets: Uint8Array.of(0, 1, 1, 1) },
];
const pass = await trainer.forward(rows, { temperature: 1, outputs: ['logprob'] });
await pass.backward({ logprob: rows.map(({ targets }) => Float32Array.from(targets, (one) => -one)) });
await trainer.optimStep({
  learningRate: 0.01,
  beta1: 0.9,
  beta2: 0.999,
  epsilon: 1e-8,
  weightDecay: 0,
  clipNorm: 0,
});
await server!.update(await trainer.publish(1));
await server!.generate({
  id: 'record/',
  trajectory: 'record',
  prompt: Int32Array.of(1, 2, 3),
  sampling: { ...PLAIN_SAMPLING, maxTokens: 4, stopIds: [258], seed: 7 },
  scorePrompt: true,
});
const folder = `${out}.folder`;
await trainer.save(folder);
await trainer.load(folder);
await trainer.close();
await server!.close();
const post = (path: string, body: object) =>
  fetch(`${recorder.url}/api/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }).then((reply) => reply.text());
const step = { adam_params: { learning_rate: 0.1 } };
await post('optim_step', { model_id: 'model_none', ...step });
await post('session_heartbeat', { session_id: 'session_none' });
const { body } = recorder.pairs.find(({ call }) => call.endsWith('forward_backward'))!;
await post('forward_backward', {
  ...(body as object),
  forward_backward_input: { data: [], loss_fn: 'none' },
});
const { request_id: lost } = JSON.parse(
  await post('optim_step', { model_id: (body as { model_id: string }).model_id, ...step }),
) as { request_id: string };
await post('retrieve_future', { request_id: lost });
await recorder.close();
const pairs = recorder.pairs.filter(({ call }) => !call.endsWith('openapi.json'));
await writeFile(
  out,
  `${JSON.stringify({ engine: 'skyrl-jax', release: '0.3.0', pairs }, null, 1).replaceAll(model, 'MODEL')}\n`,
);
console.log(pairs.map(({ call, status }) => `${call} ${status}`).join('\n'));
