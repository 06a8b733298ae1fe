import { once } from 'node:events';
import type { Command } from 'commander';
import { loadChatFormat, loadModelFiles } from '../chat/model-files.ts';
import { findModelFolder } from '../chat/model-folder.ts';
import type { ServedAs } from '../engine/arithmetic.ts';
import { openServer } from '../engine/server.ts';
import { keyFor } from '../lib/http-guard.ts';
import { serveModel } from '../serve/serve.ts';
import { serverKeyOption, tlsCertOption, tlsFiles, tlsKeyOption } from './api-key.ts';
import { port, positive, whole } from './number.ts';
import { weightsOption } from './weights-option.ts';

interface ServeFlags {
  readonly model: string;
  readonly host: string;
  readonly port: number;
  readonly replicas: number;
  readonly threads?: number;
  readonly weights: ServedAs;
  readonly cacheMegabytes?: number;
  readonly maxBatch?: number;
  readonly apiKey?: string;
  readonly allowUpdates?: boolean;
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

export function registerServe(program: Command): void {
  program
    .command('serve')
    .description('serve a model: SGLang endpoints for training, OpenAI-compatible ones for the rest')
    .requiredOption('--model <directory>', 'a model folder, or a name on the Hugging Face Hub')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--port <n>', 'of the first replica; further ones take the next. 0 takes free ones', port, 30_000)
    .option('--replicas <n>', 'engines, each with its own port and cache', whole(1, 64), 1)
    .option('--threads <n>', 'threads of each engine', whole(1))
    .addOption(weightsOption())
    .option('--cache-megabytes <n>', 'cached keys and values of each engine', positive)
    .option('--max-batch <n>', 'requests an engine runs at once', whole(1))
    .addOption(serverKeyOption())
    .option('--allow-updates', 'beyond loopback: let requests change weights, adapters and the pause')
    .addOption(tlsCertOption())
    .addOption(tlsKeyOption())
    .action(serve);
}

async function serve(flags: ServeFlags): Promise<void> {
  const model = await findModelFolder(flags.model, { weights: true });
  const { tokenizer, eosIds, templates, config } = await loadModelFiles(model);
  const format = Object.keys(templates).length > 0 ? await loadChatFormat(model) : undefined;
  const { threads, weights, cacheMegabytes, maxBatch } = flags;
  const apiKey = keyFor(flags.host, flags.apiKey);
  const tls = tlsFiles(flags);
  const opened: { close(): Promise<void> }[] = [];
  const stop = new AbortController();
  const onSignal = () => stop.abort();
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  try {
    for (let replica = 0; replica < flags.replicas && !stop.signal.aborted; replica++) {
      const server = await openServer({
        model,
        weights,
        signal: stop.signal,
        ...(threads === undefined ? {} : { threads }),
        ...(cacheMegabytes === undefined ? {} : { cacheMegabytes }),
        ...(maxBatch === undefined ? {} : { maxBatch }),
      });
      opened.unshift(server);
      const serving = await serveModel({
        server,
        model,
        config,
        tokenizer,
        eosIds,
        format,
        host: flags.host,
        port: flags.port === 0 ? 0 : flags.port + replica,
        ...(apiKey !== undefined && { apiKey }),
        ...(flags.allowUpdates && { allowUpdates: true }),
        ...(tls && { tls }),
      });
      opened.unshift(serving);
      console.log(`listening ${serving.url} (${server.description})`);
    }
    if (apiKey !== undefined && flags.apiKey === undefined) console.log(`key: ${apiKey}`);
    if (!stop.signal.aborted) await once(stop.signal, 'abort');
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    for (const resource of opened) await resource.close();
  }
}
