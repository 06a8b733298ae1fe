import { embedded } from '../engine/embedded.ts';
import type { ServerFactory } from '../gateway/server-factory.ts';
import { ENGINE_NAMES } from '../inference/engines.ts';

/** An engine that needs no server: it runs in this process. */
interface LocalEngine {
  open(options: { readonly replicas: number }): ServerFactory;
  /** The engine that it is where it runs at URLs. */
  readonly servedAs: string;
}

export const LOCAL_ENGINES: Readonly<Record<string, LocalEngine>> = {
  embedded: { open: ({ replicas }) => embedded({ replicas }).servers, servedAs: 'rollcall' },
};

/** Engines that come with the trainer of the same name, whose service also samples. */
export const TRAINER_ENGINES: readonly string[] = ['tinker'];

/** Whether an engine runs in this process or elsewhere, so that no server of it is started. */
export const needsNoServer = (engine: string): boolean =>
  Object.hasOwn(LOCAL_ENGINES, engine) || TRAINER_ENGINES.includes(engine);

/** Every value of `servers.engine`. */
export const SERVERS_ENGINES: readonly string[] = [
  ...Object.keys(LOCAL_ENGINES),
  ...ENGINE_NAMES,
  ...TRAINER_ENGINES,
];
