/** What is proved of a server before a run begins; a mismatch stops it with what differs. */
import { ConfigError } from '../errors.ts';
import { PLAIN_SAMPLING } from '../lib/plain-sampling.ts';
import type { GenerateResult, InferenceServer, SamplingParams, ServerInfo } from './server.ts';

/** A server that may say how it splits a text. */
export interface CheckedServer extends InferenceServer {
  readonly url: string;
  logprobs: ServerInfo['logprobs'];
  logprobsAfterPenalties: boolean;
  tokenize(text: string): Promise<readonly number[] | undefined>;
  /** Version of the weights as the server states it, where it does. */
  statedVersion?(): Promise<string | undefined>;
}

export interface Expected {
  /** A text, and its ids in the run's tokenizer. */
  readonly text: string;
  readonly ids: Int32Array;
  readonly vocabulary: number;
}

const PROBE_TOKENS = 12;
/** Mean difference of log-probs that rounding does not explain: bfloat16 gives about 0.01. */
const CLEARLY_DIFFERENT = 0.08;

const PLAIN: SamplingParams = {
  ...PLAIN_SAMPLING,
  maxTokens: PROBE_TOKENS,
  stopIds: [],
  seed: 11,
};

export async function checkServer(server: CheckedServer, expected: Expected): Promise<ServerInfo> {
  const { vocabulary } = await server.info();
  if (vocabulary > 0 && vocabulary < expected.vocabulary) {
    throw new ConfigError(
      `${server.url} has ${vocabulary} tokens, the run's tokenizer ${expected.vocabulary}: another model is served`,
    );
  }
  const theirs = await server.tokenize(expected.text);
  const ours = Array.from(expected.ids);
  if (theirs && theirs.join() !== ours.join()) {
    throw new ConfigError(
      `${server.url} splits ${JSON.stringify(expected.text)} into ids [${theirs}], the run's tokenizer into [${ours}]: ` +
        'another tokenizer is served',
    );
  }
  const difference = differencesOf(server, expected.ids);
  server.logprobs = await reportedLogprobs(difference);
  server.logprobsAfterPenalties = server.logprobs !== 'raw' && (await isAfterPenalties(difference));
  return server.info();
}

/** Samples a reply, scores it again as a prompt at temperature 1, and gives the mean difference of its log-probs. */
type Difference = (id: string, sampling: Partial<SamplingParams>) => Promise<number>;

function differencesOf(server: CheckedServer, prompt: Int32Array): Difference {
  return async (id, sampling) => {
    const call = { trajectory: `check/${id}`, images: [] };
    const reply = await server.generate({
      ...call,
      id: `check/${id}/`,
      prompt,
      sampling: { ...PLAIN, ...sampling },
    });
    const scored = await server.generate({
      ...call,
      id: `check/${id}-again/`,
      prompt: Int32Array.from([...prompt, ...reply.ids]),
      sampling: { ...PLAIN, maxTokens: 1 },
      scorePrompt: true,
    });
    return meanDifference(reply, scored.promptLogprobs!.subarray(prompt.length));
  };
}

/** Which distribution the reported log-probs are of: of replies sampled hot, cold and with top-k 2. */
async function reportedLogprobs(difference: Difference): Promise<ServerInfo['logprobs']> {
  const hot = await difference('hot', { temperature: 2 });
  // Where a model is nearly indifferent, heat changes little and cold much; where it is sure, the reverse.
  if (hot < CLEARLY_DIFFERENT && (await difference('cold', { temperature: 0.05 })) < CLEARLY_DIFFERENT)
    return 'raw';
  return (await difference('top-k', { topK: 2 })) < CLEARLY_DIFFERENT ? 'temperature' : 'processed';
}

/** A model that is nearly indifferent moves little under a penalty, so what it moves is held against its noise. */
async function isAfterPenalties(difference: Difference): Promise<boolean> {
  const noise = await difference('plain', {});
  const penalised = await difference('penalty', { repetitionPenalty: 2, presencePenalty: 2 });
  return penalised > Math.max(1e-3, 3 * noise);
}

function meanDifference({ logprobs }: GenerateResult, again: Float32Array): number {
  return (
    logprobs.reduce((sum, value, at) => sum + Math.abs(value - again[at]!), 0) / Math.max(1, logprobs.length)
  );
}

/** The trainer computes log-probs after temperature and before truncation; others make ratios that are wrong. */
export function checkLogprobs(
  info: ServerInfo,
  sampling: Omit<SamplingParams, 'maxTokens' | 'stopIds' | 'seed'>,
): void {
  const { temperature, topP, topK, minP } = sampling;
  const start = 'with vLLM, start it with --logprobs-mode processed_logprobs';
  if (info.logprobs === 'raw' && temperature !== 1) {
    throw new ConfigError(
      `a server of ${info.model} reports log-probs before temperature, and sampling.temperature is ${temperature}; ` +
        `${start}, or sample at temperature 1`,
    );
  }
  if (info.logprobs === 'processed' && (topP < 1 || topK > 0 || minP > 0)) {
    throw new ConfigError(
      `a server of ${info.model} reports log-probs after truncation, and top-p, top-k or min-p is on; sample without them`,
    );
  }
  const { repetitionPenalty, presencePenalty, frequencyPenalty } = sampling;
  const isPenalised = repetitionPenalty !== 1 || presencePenalty !== 0 || frequencyPenalty !== 0;
  if (info.logprobsAfterPenalties && isPenalised) {
    throw new ConfigError(
      `a server of ${info.model} reports log-probs after penalties, and sampling.repetitionPenalty is ${repetitionPenalty}, ` +
        `presencePenalty ${presencePenalty}, frequencyPenalty ${frequencyPenalty}; sample without them (1, 0 and 0)`,
    );
  }
}
