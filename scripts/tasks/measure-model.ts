import type { Exercise } from '../../examples/tasks/exercise.ts';
import { loadChatFormat } from '../../src/chat/model-files.ts';
import { evaluate } from '../../src/evaluate.ts';
import type { ServerFactory } from '../../src/gateway/server-factory.ts';
import type { Task } from '../../src/types.ts';

export interface TaskScore {
  /** Mean of the task's own reward, the first one. */
  readonly accuracy: number;
  /** Share of the calls that could be read and run. */
  readonly validCalls?: number;
  /** Share of the attempts whose first answer the user called wrong that ended right. */
  readonly corrected?: number;
}

/** Greedy, on tasks that no training has seen. */
export async function measureModel(
  model: string,
  { options, test }: Exercise<Task>,
  { servers, tiny }: { readonly servers: ServerFactory; readonly tiny: boolean },
): Promise<TaskScore> {
  const [server] = await servers.open(model);
  try {
    const { groups, sources } = await evaluate<Task>({
      name: 'test',
      tasks: tiny ? test.take(8) : test,
      server: server!,
      format: await loadChatFormat(model),
      agent: options.agent,
      rewards: options.rewards,
      limits: options.limits as object,
      sampling: { temperature: 0 },
      step: 0,
      seed: options.seed!,
    });
    const { means, rollout } = sources[0]!;
    const wrongFirst = groups
      .flatMap(({ attempts }) => attempts)
      .filter(({ trajectory }) => trajectory.turns[0]?.reward === 0);
    const ended = wrongFirst.filter(({ reward }) => reward === 1).length;
    return {
      accuracy: means[options.rewards[0]!.name]!.mean,
      ...(rollout['tools/valid'] === undefined ? {} : { validCalls: rollout['tools/valid'] }),
      ...(wrongFirst.length === 0 ? {} : { corrected: ended / wrongFirst.length }),
    };
  } finally {
    await server!.close();
  }
}
