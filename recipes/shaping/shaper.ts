import type { RewardData } from 'rollcall/rewards';

/**
 * The same shaping as code, over all trajectories of a step: what verl's documents register as a reward manager.
 *
 *   rollcall train recipes/shaping/run.yaml custom_reward_function.path=recipes/shaping/shaper.ts \\
 *     reward_model.reward_manager=my_task reward_shaping.enable=false agent.stopOnCorrect=false
 */
export function my_task(data: RewardData, { max_turns = 10 }: { max_turns?: number } = {}): number[] {
  return data.trajectories.map((trajectory, at) => {
    const last = trajectory.at(-1);
    let total = String(last?.content).includes(`#### ${data.ground_truth[at]}`) ? 1 : 0;
    for (const turn of trajectory) {
      if (turn.role === 'tool') total += turn.problem === undefined ? 0.1 : -0.1;
      if (turn.role === 'assistant' && turn.tool_calls && turn.content !== '') total += 0.05;
    }
    const replies = trajectory.filter(({ role }) => role === 'assistant').length;
    return replies > max_turns ? total - 0.5 : total;
  });
}
