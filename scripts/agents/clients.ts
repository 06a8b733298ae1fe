/**
 * Clients and frameworks against an own loop: each takes two steps from the same weights, streaming or not, with tools, and
 * gives the same tokens and the same weights. A Python program with OpenAI's client, in processes of its own, is among them.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Agent, agent, embedded, tool, train } from 'rollcall';
import { processAgent } from 'rollcall/agents';
import { calculate } from '../../examples/agents/calculate.ts';
import type { Problem } from '../../examples/agents/tool-loop.ts';
import { options } from '../../examples/agents/train.ts';
import { CLIENTS } from '../../test/endpoint-clients.ts';
import { type Aim, atLeast, holds } from '../verdict.ts';
import { frameworkAgents } from './in-process.ts';

const answer = (input: unknown) => {
  try {
    return calculate(String((input as { expression?: unknown }).expression));
  } catch {
    return 'Error: not one operation on two numbers';
  }
};

/** As solve.py writes it, and as lenient: it answers whatever it is given. */
const calculator = tool({
  name: 'calculator',
  description: 'One operation on two numbers.',
  input: { type: 'object', properties: { expression: { type: 'string' } }, required: ['expression'] },
  run: answer,
});

const ownLoop = agent<Problem>(async ({ task, model }) => {
  const chat = model.chat({ toolSchemas: [calculator.schema] });
  chat.user(task.question);
  for (;;) {
    const reply = await chat.sample();
    if (reply.final) return;
    chat.checkRoom(reply);
    chat.answer(
      reply,
      reply.toolCalls.map((call) => ({ call, result: answer(call.arguments) })),
    );
  }
});

/** Over HTTP, as another process would: the endpoint's own `fetch` is not used. */
const httpAgents = Object.entries(CLIENTS).map(([name, client]): [string, Agent<Problem>] => [
  name,
  agent<Problem>(async ({ task, endpoint }) => {
    const { fetch: _, ...overHttp } = await endpoint();
    await client(overHttp, { question: task.question, tools: [calculator] });
  }),
]);

export async function proveClients(setup: {
  readonly model: string;
  readonly folder: string;
  readonly python: string;
  readonly tasks: number;
}): Promise<{ readonly aims: readonly Aim[]; readonly figures: object }> {
  const program = fileURLToPath(new URL('solve_openai.py', import.meta.url));
  const agents: [string, Agent<Problem>][] = [
    ...httpAgents,
    ...Object.entries(frameworkAgents(calculator, answer)),
    ['Python', processAgent<Problem>({ command: [setup.python, program] })],
  ];
  const own = await twoSteps(ownLoop, join(setup.folder, 'own'), setup);
  const figures: Record<string, object> = { own };
  const aims: Aim[] = [
    atLeast('tool calls in the compared steps', own.calls, 1),
    holds(
      'both steps have a gradient',
      own.gradients.every((norm) => norm > 0),
      own.gradients,
    ),
  ];
  for (const [name, one] of agents) {
    const folder = join(setup.folder, name.replaceAll(/\W+/g, '-'));
    const steps = await twoSteps(one, folder, setup);
    const same = (file: string) =>
      readFileSync(join(setup.folder, 'own', file)).equals(readFileSync(join(folder, file)));
    const equal = {
      tokens: [1, 2].map((step) => same(`trajectories/step_${step}.tokens`)),
      weights: same('checkpoints/global_step_2/model.safetensors'),
      failed: steps.failed,
    };
    figures[name] = steps;
    console.log(name, JSON.stringify({ ...equal, ...steps }));
    aims.push(
      holds(
        `${name}: tokens, log-probs and advantages of two steps, and the weights after them, are those of an own loop`,
        equal.tokens.every(Boolean) && equal.weights && equal.failed === 0,
        equal,
      ),
    );
  }
  return { aims, figures };
}

async function twoSteps(
  solver: Agent<Problem>,
  runDir: string,
  { model, tasks }: { readonly model: string; readonly tasks: number },
) {
  const began = performance.now();
  const gradients: number[] = [];
  const figures = { attempts: 0, calls: 0, failed: 0, sampled: 0, trained: 0, seconds: 0 };
  for await (const { groups, metrics } of train<Problem>({
    ...options,
    ...embedded(),
    model,
    runDir,
    agent: solver,
    steps: 2,
    tasksPerStep: tasks,
    attemptsPerTask: 4,
    evaluation: { every: 0, before: false },
    checkpoints: { every: 2 },
  })) {
    gradients.push(metrics['actor/grad_norm'] ?? 0);
    for (const { trajectory } of groups.flatMap(({ attempts }) => attempts)) {
      figures.attempts++;
      figures.calls += trajectory.turns.reduce((sum, { toolCalls }) => sum + toolCalls.length, 0);
      figures.failed += trajectory.end.kind === 'failed' ? 1 : 0;
      for (const { sampled, trained } of trajectory.segments) {
        figures.sampled += sampled.reduce((a, b) => a + b, 0);
        figures.trained += trained.reduce((a, b) => a + b, 0);
      }
    }
  }
  return { ...figures, gradients, seconds: Math.round((performance.now() - began) / 1000) };
}
