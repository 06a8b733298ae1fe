import type { Algorithm } from '../training/algorithm.ts';
import type { Group, Metrics } from '../types.ts';
import { agentFailureNotices, firstStepNotices } from './first-step-notices.ts';
import { watchProbabilityGap } from './probability-gap.ts';

interface NoticesOptions {
  readonly tasksPerStep: number;
  readonly hasTools: boolean;
  /** Sampled and trained weights differ by plan. */
  readonly offPolicy: boolean;
  readonly dynamicSampling: Algorithm['dynamicSampling'];
  /** Said with the first step: what was seen when the run was opened. */
  readonly first: readonly string[];
}

/** Sentences for the user, with each step: what looks wrong, and what to do. */
export class Notices {
  readonly #options: NoticesOptions;
  readonly #gapNotices = watchProbabilityGap();

  constructor(options: NoticesOptions) {
    this.#options = options;
  }

  /** `groups`: how many were trained on. */
  ofUpdate(groups: number, update: { readonly notices: readonly string[] }): string[] {
    return [...this.#fewGroups(groups), ...update.notices];
  }

  ofStep(step: number, metrics: Metrics, groups: readonly Group[]): string[] {
    const gap = this.#options.offPolicy ? [] : this.#gapNotices(metrics);
    if (step !== 1) return gap;
    const { first, hasTools } = this.#options;
    return [...first, ...agentFailureNotices(groups), ...firstStepNotices(metrics, hasTools)];
  }

  /** Dynamic sampling gave up before the step had its groups. */
  #fewGroups(groups: number): string[] {
    const { dynamicSampling, tasksPerStep } = this.#options;
    if (!dynamicSampling || groups >= tasksPerStep) return [];
    const { maxRefills } = dynamicSampling;
    const left =
      groups === 0 ? `None of ${tasksPerStep} groups is` : `${groups} of ${tasksPerStep} groups are`;
    return [
      `${left} left to train on: in the others all attempts got the same, and dynamic sampling stops after ${maxRefills} ${maxRefills === 1 ? 'refill' : 'refills'} (dynamicSampling.maxRefills). Use harder or easier tasks, or allow more.`,
    ];
  }
}
