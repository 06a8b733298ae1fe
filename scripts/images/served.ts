/** A real vLLM sees: what it samples and scores of dialogues with images, against both trainers on the same ids and bytes. */
import { once } from 'node:events';
import { join } from 'node:path';
import { type LookRows, lookRows } from '../../bench/engine/images.ts';
import { openTrainer } from '../../src/engine/training/trainer.ts';
import type { GenerateRequest } from '../../src/inference/server.ts';
import { VllmServer } from '../../src/inference/vllm.ts';
import { PLAIN_SAMPLING } from '../../src/lib/plain-sampling.ts';
import { torch } from '../../src/torch/torch.ts';
import type { Row, Trainer } from '../../src/training/trainer.ts';
import { type Pair, startRecorder } from '../../test/servers/recorder.ts';
import { type Aim, atLeast, atMost, holds } from '../verdict.ts';

type SeenRow = Awaited<ReturnType<LookRows['rows']>>[number];

export interface Served {
  /** Its folder; the server at `url` was started with it. */
  readonly model: string;
  readonly url: string;
  readonly python: string;
  readonly rows: number;
  readonly directory: string;
}

const ADAM = { learningRate: 1e-2, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, clipNorm: 1 };
const SCORED = { temperature: 1, outputs: ['logprob'] as const };
const REPLY_TOKENS = 8;

export async function proveServed({ model, url, python, rows: count, directory }: Served): Promise<Aim[]> {
  const look = await lookRows(model);
  const readImage = look.images.read;
  const rows = await look.rows(0, count);
  const recorder = await startRecorder(url);
  const server = new VllmServer({ url: recorder.url, readImage });
  const direct = new VllmServer({ url, readImage }); // the recorder passes no stream on before its end
  const own = await openTrainer({ model, threads: 2, readImage });
  const other = await torch({ device: 'cpu', threads: 1, python }).open('policy', model, { readImage });
  try {
    const dialogues = await played(server, rows, recorder.begin);
    const sent = bytesByTurn(recorder.pairs);
    const [ours, theirs] = [await scores(own, dialogues), await scores(other, dialogues)];
    const strays = await played(server, rows.slice(0, 4).map(withStray), recorder.begin);
    const [oursStray, theirsStray] = [await scores(own, strays), await scores(other, strays)];

    await step(other, rows);
    const moved = join(directory, 'moved');
    await other.save(moved);
    const before = (await scores(other, dialogues))[0]!;
    const begun = new AbortController();
    const long = { sampling: { ...sampling(1), maxTokens: 150 }, onTokens: () => begun.abort() };
    const running = ask(direct, rows[1]!, long);
    await Promise.race([once(begun.signal, 'abort'), running]);
    await server.pause('keep');
    await server.update({ kind: 'disk', version: 1, path: moved });
    await server.resume();
    const across = await running;
    const updated = await played(server, rows, recorder.begin);
    const afterUpdate = await scores(other, updated);

    // As after a restart: what was sent is gone, and this side does not know.
    await fetch(`${url}/reset_mm_cache`, { method: 'POST' });
    recorder.begin('lost');
    const again = await ask(server, rows[0]!, { scorePrompt: true });
    const lost = recorder.pairs.filter((pair) => pair.step === 'lost' && isGenerate(pair));

    const many = await ask(server, manyTimes(rows[0]!, 1000), {}).then(
      () => 'answered',
      (error: Error) => error.message,
    );
    const first = ours[0]!;
    return [
      atMost('vLLM against the embedded trainer, largest difference', apart(dialogues, ours), 1e-4),
      atMost('vLLM against the PyTorch trainer, largest difference', apart(dialogues, theirs), 1e-4),
      atMost('with a placeholder that a reply wrote, embedded', apart(strays, oursStray), 1e-4),
      atMost('with a placeholder that a reply wrote, PyTorch', apart(strays, theirsStray), 1e-4),
      atMost('after new weights, with images it has seen before', apart(updated, afterUpdate), 1e-4),
      atLeast(
        'what the new weights changed',
        Math.max(...first.map((value, at) => Math.abs(value - before[at]!))),
        0.05,
      ),
      holds(
        'a reply across the update goes on',
        across.finish === 'stop' || (across.finish === 'length' && across.versions.at(-1)?.version === 1),
        across.versions,
      ),
      holds(
        'of the second turn only the new image is sent',
        sent.second.images === rows.length && sent.first.images === rows.length,
        sent,
      ),
      holds('more images than the server takes are refused in words', /At most 999 image/.test(many), many),
      holds(
        'images that the server lost are sent again',
        lost.map(({ status }) => status).join() === '400,200' && again.ids.length > 0,
        lost.map(({ status }) => status),
      ),
    ];
  } finally {
    await Promise.all([own.close(), other.close(), server.close(), direct.close()]);
    await recorder.close();
  }
}

/** A dialogue as it was scored and continued: its ids with the reply, and vLLM's log-prob of each but the first. */
interface Played {
  readonly row: Row;
  readonly logprobs: Float32Array;
}

/** Each row in two turns: its beginning up to the first reply, then the whole; the second is scored and continued. */
async function played(
  server: VllmServer,
  rows: readonly SeenRow[],
  begin: (step: string) => void,
): Promise<Played[]> {
  begin('first turn');
  await Promise.all(rows.map((row) => ask(server, beginning(row), {})));
  begin('second turn');
  return Promise.all(
    rows.map(async (row) => {
      const { ids, logprobs, promptLogprobs } = await ask(server, row, { scorePrompt: true });
      const all = Int32Array.from([...row.ids, ...ids]);
      const hidden = new Set(row.images.map(({ at }) => at));
      return {
        row: {
          ...row,
          ids: all,
          targets: Uint8Array.from(all, (_, at) => (at > 0 && !hidden.has(at) ? 1 : 0)),
        },
        logprobs: Float32Array.from([...promptLogprobs!, ...logprobs]),
      };
    }),
  );
}

const sampling = (seed: number) => ({ ...PLAIN_SAMPLING, maxTokens: REPLY_TOKENS, stopIds: [], seed });

let asked = 0;
function ask(
  server: VllmServer,
  { ids, images }: Pick<SeenRow, 'ids' | 'images'>,
  more: Partial<GenerateRequest>,
) {
  const id = `dialogue-${asked++}`;
  return server.generate({
    id: `${id}/`,
    trajectory: id,
    prompt: ids,
    images: images.map(({ image }) => image),
    imagePlaces: images.map(({ at }) => at),
    sampling: sampling(asked),
    ...more,
  });
}

/** Up to where the second image's turn begins. */
function beginning({ ids, images }: SeenRow): Pick<SeenRow, 'ids' | 'images'> {
  return { ids: ids.slice(0, images[0]!.at + 8), images: images.slice(0, 1) };
}

/** The same dialogue with the image's own id between the two images, as a reply may have written it. */
function withStray(row: SeenRow): SeenRow {
  const [first, second] = row.images;
  const at = first!.at + 6;
  const ids = Int32Array.from([...row.ids.slice(0, at), row.ids[first!.at]!, ...row.ids.slice(at)]);
  return { ...row, ids, images: [first!, { ...second!, at: second!.at + 1 }] };
}

/** The first image, so many times. */
function manyTimes({ ids, images: [first] }: SeenRow, count: number): Pick<SeenRow, 'ids' | 'images'> {
  const images = Array.from({ length: count }, (_, at) => ({ ...first!, at }));
  return { ids: new Int32Array(count + 1).fill(ids[first!.at]!, 0, count), images };
}

async function scores(trainer: Trainer, dialogues: readonly Played[]): Promise<readonly Float32Array[]> {
  return (
    await trainer.score(
      dialogues.map(({ row }) => row),
      SCORED,
    )
  ).logprob!;
}

function apart(dialogues: readonly Played[], scored: readonly Float32Array[]): number {
  const differences = dialogues.flatMap(({ row, logprobs }, number) =>
    [...row.targets.keys()]
      .filter((at) => row.targets[at])
      .map((at) => Math.abs(logprobs[at]! - scored[number]![at]!)),
  );
  return Math.max(...differences);
}

async function step(trainer: Trainer, rows: readonly Row[]): Promise<void> {
  const pass = await trainer.forward(rows, SCORED);
  await pass.backward({
    logprob: rows.map(({ targets }) => Float32Array.from(targets, (target) => -target)),
  });
  await trainer.optimStep(ADAM);
}

const isGenerate = ({ call }: Pair) => call === 'POST /inference/v1/generate';

function bytesByTurn(pairs: readonly Pair[]) {
  const of = (turn: string) => {
    const bodies = pairs
      .filter((pair) => isGenerate(pair) && pair.step === turn)
      .map(({ body }) => JSON.stringify(body));
    const images = bodies.reduce((sum, body) => sum + body.split('"url":"data:').length - 1, 0);
    const bytes = bodies.reduce((sum, body) => sum + body.length, 0);
    return { requests: bodies.length, images, bytesPerRequest: Math.round(bytes / bodies.length) };
  };
  return { first: of('first turn'), second: of('second turn') };
}
