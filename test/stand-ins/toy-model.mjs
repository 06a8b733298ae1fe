/**
 * Logits of the next token by the token before it: `weights` is text, of which they are a hash, or a table of them, row by
 * row, with a token per byte and eight more.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const VOCABULARY = 97;
const BYTES = 256 + 8;

function hash(...values) {
  let state = 2166136261;
  for (const value of values) {
    for (const character of String(value)) {
      state = Math.imul(state ^ character.charCodeAt(0), 16777619);
    }
    state = Math.imul(state ^ 31, 16777619);
  }
  state ^= state >>> 15;
  state = Math.imul(state, 2246822519);
  state ^= state >>> 13;
  return (state >>> 0) / 2 ** 32;
}

function logSoftmax(logits) {
  const top = Math.max(...logits);
  const total = Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - top), 0)) + top;
  return logits.map((logit) => logit - total);
}

function logitsAfter(weights, previous) {
  if (typeof weights !== 'string') return weights.slice(previous * BYTES, (previous + 1) * BYTES);
  return Array.from({ length: VOCABULARY }, (_, token) => 6 * hash(weights, previous, token));
}

/** What a table is before any was loaded. */
export const firstTable = () => Array.from({ length: BYTES * BYTES }, (_, at) => 6 * hash(at));

/** The table that a trainer of `rollcall/testing` saved in a folder. */
export const readTable = (folder) =>
  JSON.parse(readFileSync(join(folder, 'tabular.json'), 'utf8')).parameters;

/** Log-probs of each token of a prompt but the first, at temperature 1. */
export function score(weights, ids) {
  return ids.map((id, at) => (at === 0 ? null : logSoftmax(logitsAfter(weights, ids[at - 1]))[id]));
}

/** One sampled token and its log-prob as a server of this kind reports it. */
export function sample(weights, ids, { temperature, topK, seed, repetition }, kind) {
  const own = logitsAfter(weights, ids.at(-1));
  const raw = logSoftmax(own);
  const seen = new Set(ids);
  const logits = own.map((logit, token) => (seen.has(token) ? logit / repetition : logit));
  const warm = logSoftmax(temperature === 0 ? logits : logits.map((logit) => logit / temperature));
  const allowed = warm
    .map((_, token) => token)
    .sort((a, b) => warm[b] - warm[a])
    .slice(0, temperature === 0 ? 1 : topK > 0 ? topK : warm.length);
  const mass = allowed.reduce((sum, token) => sum + Math.exp(warm[token]), 0);
  let left = hash('draw', seed, ids.length) * mass;
  const id =
    allowed.find((token) => {
      left -= Math.exp(warm[token]);
      return left < 0;
    }) ?? allowed.at(-1);
  const logprob = kind === 'raw' ? raw[id] : kind === 'processed' ? warm[id] - Math.log(mass) : warm[id];
  return { id, logprob };
}

export const bytes = (text) => [...Buffer.from(text)];
export const tokenize = (text) => Array.from(text, (character) => character.charCodeAt(0) % VOCABULARY);
