/** What a tracker asks of any MLflow store. */

export type Environment = Readonly<Record<string, string | undefined>>;

export interface MlflowMetric {
  readonly key: string;
  readonly value: number;
  /** Milliseconds since 1970. */
  readonly timestamp: number;
  readonly step: number;
}

/** A run in a store. */
export interface MlflowRun {
  readonly runId: string;
  readonly experimentId: string;
  readonly artifactUri: string;
}

/** What a store holds of a run that was made before. */
export interface StoredRun {
  readonly run: MlflowRun;
  readonly params: ReadonlySet<string>;
  /** The newest value of each metric. */
  readonly metrics: ReadonlyMap<string, number>;
}

export interface NewMlflowRun {
  readonly experimentId: string;
  readonly name: string;
  readonly startTime: number;
  readonly tags: Readonly<Record<string, string>>;
}

export type MlflowStatus = 'RUNNING' | 'FINISHED' | 'KILLED';

/** What a tracker asks of a store. */
export interface MlflowRuns {
  /** The experiment with this name, made if there is none. */
  experimentId(name: string, signal: AbortSignal): Promise<string>;
  create(run: NewMlflowRun, signal: AbortSignal): Promise<MlflowRun>;
  /** Undefined if the store no longer has it. */
  find(run: { runId: string; experimentId: string }, signal: AbortSignal): Promise<StoredRun | undefined>;
  addParams(
    run: MlflowRun,
    params: readonly { key: string; value: string }[],
    signal: AbortSignal,
  ): Promise<void>;
  addMetrics(run: MlflowRun, metrics: readonly MlflowMetric[], signal: AbortSignal): Promise<void>;
  setTag(run: MlflowRun, key: string, value: string, signal: AbortSignal): Promise<void>;
  putArtifact(run: MlflowRun, name: string, body: Uint8Array, signal: AbortSignal): Promise<void>;
  setStatus(run: MlflowRun, status: MlflowStatus, signal: AbortSignal): Promise<void>;
}

export interface MlflowAddress {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}
