/**
 * Runs untrusted code. What runs inside sees no host files, no network, no environment and no other
 * process, and is ended at its limits.
 */

/** The most time, memory, processes and output that code may take. */
export interface SandboxLimits {
  /** Wall clock, start included. */
  readonly milliseconds: number;
  /** Processor time, where the platform can count it apart from the wall clock. */
  readonly cpuSeconds: number;
  readonly memoryMiB: number;
  /** Limit for stdout and stderr together. */
  readonly outputBytes: number;
  readonly processes: number;
  /** What may be written to the sandbox's own, temporary disk. */
  readonly diskMiB: number;
}

export const DEFAULT_SANDBOX_LIMITS: SandboxLimits = {
  milliseconds: 10_000,
  cpuSeconds: 5,
  memoryMiB: 256,
  outputBytes: 256 * 1024,
  processes: 16,
  diskMiB: 32,
};

/** What code printed, how it ended and how long it took. */
export interface SandboxResult {
  /** `ok`: it ended normally, without an error. `error`: it ended with one. Otherwise the limit that ended it. */
  readonly status: 'ok' | 'error' | 'timeout' | 'memory' | 'output';
  readonly stdout: string;
  readonly stderr: string;
  readonly milliseconds: number;
}

export interface SandboxRunOptions {
  readonly stdin?: string;
  readonly signal?: AbortSignal;
}

/** TypeScript is JavaScript once its types are taken out; they are not checked. */
export const SANDBOX_LANGUAGES = ['javascript', 'typescript', 'python'] as const;
export type SandboxLanguage = (typeof SANDBOX_LANGUAGES)[number];

/**
 * `system`: the operating system contains the process. `interpreter`: an interpreter in WebAssembly does, in a process
 * with Node's permissions.
 */
export type Boundary = 'system' | 'interpreter';

/** Programs that share a world: what one defines, the next finds. */
export interface SandboxSession {
  /**
   * As `run` of a sandbox. A program that is ended at a limit ends the world with it: the next program begins afresh,
   * and its `stderr` begins with `WORLD_LOST`.
   */
  run(code: string, options?: SandboxRunOptions): Promise<SandboxResult>;
  close(): Promise<void>;
}

/** What a program is told when the world of those before it is gone. */
export const WORLD_LOST = '(The interpreter was started again: what earlier programs defined is gone.)\n';

/** Runs untrusted code. */
export interface Sandbox {
  readonly language: SandboxLanguage;
  readonly boundary: Boundary;
  /** What contains the code, and why that: for people. */
  readonly description: string;
  /**
   * Each run is a fresh world: nothing is left of it for the next. Rejects with the signal's reason, or with a
   * ToolError where the sandbox itself fails.
   */
  run(code: string, options?: SandboxRunOptions): Promise<SandboxResult>;
  /** A world of its own that stays, a process, until it is closed. Throws a ConfigError where there is no such thing. */
  session(): SandboxSession;
  close(): Promise<void>;
}

/** The limits of a sandbox, its boundary, and how many programs run at once. */
export interface SandboxOptions extends Partial<SandboxLimits> {
  /** Default: `system` where bubblewrap works, else `interpreter`. */
  readonly boundary?: Boundary;
  /** Programs at once; the rest wait, and their time has not begun. Default: two for each processor. */
  readonly concurrency?: number;
  /** Sessions with a world at once; the rest wait. Default: 32. */
  readonly sessions?: number;
}
