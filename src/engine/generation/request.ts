import { EngineError } from '../../errors.ts';
import type { SamplingParams } from '../../inference/server.ts';
import type { ImageBytes } from '../vision/image-patches.ts';

/** What crosses to the engine's thread: a `GenerateRequest` without its functions. */
export interface PlainRequest {
  readonly id: string;
  readonly prompt: Int32Array;
  readonly sampling: SamplingParams;
  readonly adapter?: string | null | undefined;
  readonly priority?: number | undefined;
  readonly scorePrompt?: boolean | undefined;
  /** The images at the prompt's placeholders, by hash, and where these stand if the caller knows. */
  readonly shown?: readonly string[] | undefined;
  readonly places?: readonly number[] | undefined;
  /** Their bytes, each image once. */
  readonly images?: readonly ImageBytes[] | undefined;
  readonly streams: boolean;
}

export interface EngineBounds {
  readonly vocabulary: number;
  readonly contextTokens: number;
  readonly adapters: ReadonlySet<string>;
  readonly sees: boolean;
}

/** Throws an `EngineError` that names the field and its value, before anything of the request runs. */
export function checkRequest(request: PlainRequest, limits: EngineBounds): void {
  const refuse = (field: string, value: unknown, right: string) => {
    throw new EngineError(`request ${JSON.stringify(request.id)}: ${field} is ${show(value)}; ${right}`);
  };
  checkPrompt(request.prompt, limits, refuse);
  checkSampling(request.sampling, refuse);
  if (request.shown?.length && !limits.sees) {
    refuse('images', `${request.shown.length} image(s)`, 'this model reads text only');
  }
  if (typeof request.adapter === 'string' && !limits.adapters.has(request.adapter)) {
    const known = [...limits.adapters].map((name) => JSON.stringify(name)).join(', ') || 'none';
    refuse('adapter', request.adapter, `loaded adapters: ${known}`);
  }
  if (request.priority !== undefined && !Number.isFinite(request.priority)) {
    refuse('priority', request.priority, 'a finite number is needed');
  }
}

type Refuse = (field: string, value: unknown, right: string) => void;

function checkPrompt(prompt: Int32Array, limits: EngineBounds, refuse: Refuse): void {
  if (!(prompt instanceof Int32Array)) refuse('prompt', typeof prompt, 'an Int32Array is needed');
  if (prompt.length === 0) refuse('prompt', 'empty', 'at least one id is needed');
  if (prompt.length >= limits.contextTokens) {
    const right = `with room for a reply it may have ${limits.contextTokens - 1} (context ${limits.contextTokens})`;
    refuse('prompt', `${prompt.length} tokens long`, right);
  }
  const bad = prompt.findIndex((id) => id < 0 || id >= limits.vocabulary);
  if (bad >= 0) {
    refuse(`prompt[${bad}]`, prompt[bad], `ids of this vocabulary are 0 to ${limits.vocabulary - 1}`);
  }
}

function checkSampling(sampling: SamplingParams, refuse: Refuse): void {
  if (typeof sampling !== 'object' || sampling === null) refuse('sampling', sampling, 'an object is needed');
  const number = (field: keyof SamplingParams, right: string, fits: (value: number) => boolean) => {
    const value = sampling[field];
    if (typeof value !== 'number' || !Number.isFinite(value) || !fits(value)) {
      refuse(`sampling.${field}`, value, right);
    }
  };
  number('temperature', '0 (greedy) or a number from 1e-6 to 1e6 is needed', (value) => {
    return value === 0 || (value >= 1e-6 && value <= 1e6);
  });
  number('topP', 'a number above 0 and at most 1 is needed', (value) => value > 0 && value <= 1);
  number(
    'topK',
    '-1 (off) or a positive integer is needed',
    (value) => Number.isInteger(value) && (value === -1 || value > 0),
  );
  number('minP', 'a number from 0 to 1 is needed', (value) => value >= 0 && value <= 1);
  number('repetitionPenalty', 'a positive number is needed', (value) => value > 0);
  number('presencePenalty', 'a finite number is needed', () => true);
  number('frequencyPenalty', 'a finite number is needed', () => true);
  number('maxTokens', 'a positive integer is needed', (value) => Number.isInteger(value) && value > 0);
  number('seed', 'an integer is needed', Number.isSafeInteger);
  checkList(sampling.stopIds, 'stopIds', refuse, 'a list of ids is needed', (id) => {
    return typeof id === 'number' && Number.isSafeInteger(id) && id >= 0;
  });
  checkList(sampling.stopStrings, 'stopStrings', refuse, 'a list of non-empty strings is needed', (text) => {
    return typeof text === 'string' && text.length > 0;
  });
  if (sampling.constraint !== undefined) {
    refuse(
      'sampling.constraint',
      sampling.constraint.kind,
      'the embedded engine does not constrain replies (`can` lacks it)',
    );
  }
}

function checkList(
  list: readonly unknown[],
  field: string,
  refuse: Refuse,
  right: string,
  fits: (item: unknown) => boolean,
): void {
  if (!Array.isArray(list)) refuse(`sampling.${field}`, list, right);
  const bad = list.findIndex((item) => !fits(item));
  if (bad >= 0) refuse(`sampling.${field}[${bad}]`, list[bad], right);
}

function show(value: unknown): string {
  if (typeof value === 'number' || value === undefined) return String(value);
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? typeof value);
}
