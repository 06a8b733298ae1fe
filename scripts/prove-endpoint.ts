/**
 * Proves that a model learns through a URL: the quick start's task by the plain `openai` client, against the built-in loop
 * from the same warm start, with the same seed. Before that, ten thousand idle connections keep nobody out.
 *
 *   npm run prove endpoint [-- --seed 1] [--steps 12] [--quick] [--only idle]
 */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import OpenAI from 'openai';
import { calculate } from '../examples/quickstart/calculate.ts';
import { calculator, type Question } from '../examples/quickstart/solver.ts';
import { trainOptions } from '../examples/quickstart/train-options.ts';
import { type Agent, agent } from '../src/agent/agent.ts';
import { train } from '../src/train.ts';
import { proveIdle } from './endpoint/idle.ts';
import { readFlags } from './flags.ts';
import { validationOf, warmStart } from './short-run.ts';
import { atLeast, atMost, conclude, holds } from './verdict.ts';

const flags = readFlags(
  { seed: '1', steps: '20', runs: 'runs/prove-endpoint', idle: '10000', only: '' },
  { steps: '8' },
);
const seed = Number(flags.seed);
const steps = Number(flags.steps);

/** As anyone would write it, with the words of `toolLoop` for a tool that fails. */
const client: Agent<Question> = agent<Question>(async ({ task, endpoint }) => {
  const { openai, apiKey } = await endpoint();
  const policy = new OpenAI({ baseURL: openai, apiKey });
  const { name, description, parameters } = calculator.schema.function;
  const tools = [
    { type: 'function' as const, function: { name, description, parameters: { ...parameters } } },
  ];
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: task.question }];
  for (;;) {
    const { choices } = await policy.chat.completions.create({ model: 'policy', messages, tools });
    const { message } = choices[0]!;
    messages.push(message);
    if (!message.tool_calls?.length) return;
    for (const call of message.tool_calls) {
      if (call.type !== 'function') continue;
      messages.push({ role: 'tool', tool_call_id: call.id, content: resultOf(call.function.arguments) });
    }
  }
});

function resultOf(given: string): string {
  const { expression } = JSON.parse(given) as { expression?: unknown };
  const result = typeof expression === 'string' ? calculate(expression) : undefined;
  return String(result ?? "Error executing tool 'calculator': not one operation on two numbers");
}

async function learn(name: string, model: string, solver?: Agent<Question>) {
  const runDir = join(flags.runs, name);
  await rm(runDir, { recursive: true, force: true });
  const options = trainOptions({ seed, variant: 'short', steps, model, runDir });
  const validation: number[] = [];
  const rewards: number[] = [];
  const began = performance.now();
  for await (const { step, metrics } of train({ ...options, ...(solver ? { agent: solver } : {}) })) {
    const value = validationOf({ step, seconds: 0, metrics });
    if (value !== undefined) validation.push(value);
    if (step > 0) rewards.push(metrics['reward_mean']!);
  }
  const seconds = (performance.now() - began) / 1000;
  console.log(JSON.stringify({ name, seconds, validation, rewards }));
  return { validation, rewards, seconds };
}

async function proveLearning(model: string) {
  const loop = await learn('loop', model);
  const url = await learn('url', model, client);
  const [first, last] = [url.validation[0]!, url.validation.at(-1)!];
  return {
    aims: [
      atLeast('points of validation that the model gains through a URL', 100 * (last - first), 5),
      atMost('points between the last validations', 100 * Math.abs(last - loop.validation.at(-1)!), 5),
      holds('the reward of the first step is that of the built-in loop', url.rewards[0] === loop.rewards[0], [
        url.rewards[0],
        loop.rewards[0],
      ]),
    ],
    figures: { loop, url },
  };
}

const idle = await proveIdle(Number(flags.idle));
const learning =
  flags.only === 'idle'
    ? undefined
    : await proveLearning(await warmStart(flags.runs, { seed, variant: 'short' }));
conclude([...idle.aims, ...(learning?.aims ?? [])], { idle: idle.figures, ...learning?.figures });
