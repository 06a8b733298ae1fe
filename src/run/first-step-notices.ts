import type { Group, Metrics } from '../types.ts';

/** Attempts of step 1 in which the agent threw, or its process failed: none is trained, and the run goes on. */
export function agentFailureNotices(groups: readonly Group[]): string[] {
  const attempts = groups.flatMap((group) => group.attempts);
  const failed = attempts.flatMap(({ trajectory: { id, end } }) =>
    end.kind === 'failed' && end.boundary === 'agent' ? [`${id}: ${end.message}`] : [],
  );
  if (failed.length === 0) return [];
  return [
    `In step 1 the agent failed in ${failed.length} of ${attempts.length} attempts, which are not trained; for example ` +
      `${failed[0]}. The run stops when more than failures.tolerateShare of a step fails.`,
  ];
}

/** What most often keeps a run from learning shows in its first step. */
export function firstStepNotices(metrics: Metrics, hasTools: boolean): string[] {
  const notices: string[] = [];
  if (hasTools && metrics['tools/calls'] === 0) {
    notices.push(
      'In step 1 no trajectory called a tool, though the agent has some. A model that never calls cannot learn to: ' +
        'look at a prompt with `rollcall preview`, show the call format in the prompt, or warm-start with `rollcall sft`.',
    );
  }
  const groups = metrics['groups/total'] ?? 0;
  // Rewards of turns or of sub-agents may teach all the same.
  const hasLearned = (metrics['actor/grad_norm'] ?? 0) > 0;
  if (groups > 0 && metrics['groups/without_spread'] === groups && !hasLearned) {
    notices.push(
      'In step 1 every group got the same reward for all its attempts, so nothing was learned. ' +
        'Look at a few with `rollcall show`; easier tasks, a warm start (rollcall sft) or a partial reward help.',
    );
  }
  const forced = metrics['endpoint/forced_sampling'] ?? 0;
  if (forced > 0) {
    notices.push(
      `In step 1, ${forced} of ${metrics['endpoint/requests']} requests to the endpoint asked for a temperature, top-p or penalty ` +
        "other than the run's; the run's were used (endpoint.sampling).",
    );
  }
  return notices;
}
