/** The engines that are known by name. To add one, write it beside these and add it to the list. */
import { ConfigError } from '../errors.ts';
import type { Engine } from './engine.ts';
import { rollcall } from './engines/rollcall.ts';
import { sglang } from './engines/sglang.ts';
import { vllm } from './engines/vllm.ts';

export const ENGINES: readonly Engine[] = [rollcall, sglang, vllm];

export const ENGINE_NAMES: readonly string[] = ENGINES.map(({ name }) => name);

/** `where` is the option or flag that names it, for the message. */
export function engineNamed(name: string, where: string): Engine {
  const engine = ENGINES.find((one) => one.name === name);
  if (engine) return engine;
  throw new ConfigError(`${where} is ${JSON.stringify(name)}; use one of ${ENGINE_NAMES.join(', ')}`);
}
