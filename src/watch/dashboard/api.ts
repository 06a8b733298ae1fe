/** What the page asks and what it gets: the one description that server and page share. */
import type { RunState } from '../run-end.ts';
import type { RunStatus } from '../run-status.ts';
import type { ServerSamples } from '../server-samples.ts';
import type { StoredTrajectory } from '../trajectory-store.ts';
import type { TokenDifference } from './retokenised.ts';

export interface RunSummary {
  readonly id: string;
  /** The run's name as given on the command line. */
  readonly name: string;
  readonly state: RunState['state'];
  /** Why it stopped or failed. */
  readonly reason: string | null;
  /** What it is doing, while it lives; what it was doing last, if it was killed or failed. */
  readonly doing: Doing | null;
  /** Newest step with metrics. */
  readonly step: number | null;
  readonly plannedSteps: number | null;
  readonly seconds: number | null;
  /** Which file metrics.jsonl is: a resume writes another, and may then repeat steps. */
  readonly metricsFile: number | null;
  readonly model: string;
  readonly algorithm: string;
  readonly agent: string;
  readonly rewards: readonly string[];
  /** The run that a fork or an evaluation is of. */
  readonly parent: string | null;
  /** Set for the outcomes of `rollcall fork`. */
  readonly fork: ForkOrigin | null;
  /** Set for what was sampled to measure the policy: the validation set's name. */
  readonly evaluation: string | null;
}

export interface Doing extends Pick<RunStatus, 'step' | 'waits' | 'failures'> {
  /** One line for each thing that the run waits for. */
  readonly lines: readonly string[];
  /** Since it was written. */
  readonly secondsAgo: number;
}

export interface ForkOrigin {
  readonly step: number;
  readonly position: number;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly turn: number;
}

export interface RunList {
  readonly runs: readonly RunSummary[];
  /** Whether this server can continue a trajectory. */
  readonly canFork: boolean;
}

/** metrics.jsonl, column by column; null where a step has no such number. */
export interface MetricsView {
  readonly steps: readonly number[];
  readonly seconds: readonly number[];
  readonly series: Readonly<Record<string, readonly (number | null)[]>>;
  /** Steps whose trajectories are on disk. */
  readonly recorded: readonly number[];
}

export interface AttemptRow {
  /** Number of the trajectory in its step: its name in links. */
  readonly position: number;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly reward: number | null;
  readonly advantage: number | null;
  readonly end: string;
  readonly message: string | null;
  readonly turns: number;
  readonly problems: number;
  readonly tokens: number;
  readonly sampledTokens: number;
}

export interface StepView {
  readonly step: number;
  readonly attempts: readonly AttemptRow[];
  /** The first words of the prompt, by task index. */
  readonly titles: Readonly<Record<number, string>>;
  /** By position: the first words of the last reply. None where the step's file is too large to read for a list. */
  readonly replies: readonly string[];
}

export interface SearchView {
  readonly hits: readonly { readonly position: number; readonly snippet: string }[];
}

/** Columns of one segment; null stands for NaN: not asked. */
export interface TokenColumns {
  readonly ids: readonly number[];
  /** Text of each token; a character spread over several stands at its last. */
  readonly texts: readonly string[];
  readonly sampled: readonly number[];
  readonly trained: readonly number[];
  readonly rolloutLogprobs: readonly (number | null)[];
  readonly trainerLogprobs: readonly (number | null)[];
  readonly entropies: readonly (number | null)[];
  readonly advantages: readonly (number | null)[];
  readonly versions: readonly number[];
  readonly turns: readonly number[];
  /** Where encoding the text again would not give the sampled tokens. */
  readonly retokenised: readonly TokenDifference[];
}

export interface TrajectoryView {
  readonly row: AttemptRow;
  readonly count: number;
  readonly trajectory: StoredTrajectory;
  readonly segments: readonly TokenColumns[];
  /** Why there are no texts, where the tokenizer is not available. */
  readonly withoutTexts: string | null;
}

export interface TimelineLane {
  readonly position: number;
  readonly taskIndex: number;
  readonly attempt: number;
  readonly spans: readonly {
    readonly kind: string;
    readonly name: string;
    readonly turn: number;
    readonly start: number;
    readonly end: number;
    readonly problem?: string;
    readonly server?: string;
    readonly promptTokens?: number;
    readonly cachedTokens?: number;
  }[];
}

export interface TimelineView {
  readonly step: number;
  readonly lanes: readonly TimelineLane[];
  /** Null where servers were not looked at. */
  readonly servers: ServerSamples | null;
}

export interface FailureRow {
  readonly position: number;
  readonly taskIndex: number;
  readonly attempt: number;
  /** `ends/truncated-turns`, `tools/problems/unknown-tool`: the metric's name. */
  readonly kind: string;
  readonly turn: number | null;
  readonly message: string;
  /** The text that could not be read, or the tool's name; empty for an end. */
  readonly source: string;
  /** Of a failed attempt. */
  readonly cause: string | null;
  readonly suggestion: string | null;
}

export interface StepFailures {
  readonly step: number;
  readonly failures: readonly FailureRow[];
}

/** Every place where a task was attempted. */
export interface TaskPlaces {
  readonly taskIndex: number;
  readonly steps: readonly number[];
}

export interface ForkRequest {
  readonly step: number;
  readonly position: number;
  readonly turn: number;
  readonly attempts: number;
  /** Message number → its new text. */
  readonly edits: Readonly<Record<number, string>>;
}

export interface ForkResult {
  /** The fork's run id on this server. */
  readonly run: string;
  readonly step: number;
}
