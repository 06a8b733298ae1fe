import { agent, createBatch, embedded, loadChatFormat, reward, rollout, updatePolicy } from 'rollcall';
import { grpo } from 'rollcall/algorithms';
import { writeByteModel } from 'rollcall/testing';

// Tasks, an agent and a reward: say characters that sort before a letter.
const tasks = Array.from({ length: 8 }, (_, index) => ({ index, task: { letter: 'm' } }));
const speaker = agent<{ letter: string }>(async ({ task, model }) => {
  const chat = model.chat();
  chat.user(task.letter);
  await chat.sample();
});
const before = reward<{ letter: string }>('before', ({ task, trajectory: { text } }) => {
  return [...text].filter((character) => character < task.letter).length / Math.max(1, text.length);
});

/** What `train()` does, by hand: the model in this folder (random weights) learns in 25 steps. Yields mean rewards. */
export async function* loop(model: string, steps = 25): AsyncGenerator<number> {
  await writeByteModel(model);
  const { servers, trainer: trainers } = embedded({ threads: 1 });
  const [format, [server], trainer] = await Promise.all([
    loadChatFormat(model),
    servers.open(model),
    trainers.open('policy', model),
  ]);
  const algorithm = grpo();
  const limits = { tokensPerReply: 12 };
  for (let step = 1; step <= steps; step++) {
    const shared = { agent: speaker, rewards: [before], server: server!, format, limits, seed: 1 };
    const groups = await rollout({ ...shared, tasks, attempts: 8, step });
    const batch = createBatch(groups, { step, version: step - 1, algorithm });
    await updatePolicy({ trainer, batch, algorithm, optimizer: { adam: { learningRate: 1e-2 } } });
    await server!.update(await trainer.publish(step));
    const rewards = groups.flatMap(({ attempts }) => attempts.flatMap(({ reward }) => reward ?? []));
    yield rewards.reduce((sum, one) => sum + one, 0) / rewards.length;
  }
  await Promise.all([server!.close(), trainer.close()]);
}
