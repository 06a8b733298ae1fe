/** Tool files and agent-loop settings as verl's examples write them, opened from data and run: scripted, and on the engine. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reward, rollout } from 'rollcall';
import { type DescribedAgentOptions, openDescribedAgent } from 'rollcall/agents';
import { type ResolvedRun, resolveRun } from 'rollcall/options';
import {
  byteModel,
  type ScriptedEngineOptions,
  scriptedEngine,
  virtualClock,
  writeByteModel,
} from 'rollcall/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openServer } from '../../src/engine/server.ts';
import type { InferenceServer } from '../../src/inference/server.ts';
import { taskRow } from '../../src/verl/task-row.ts';

const { tokenizer, format } = byteModel();
const call = (name: string, given: object = {}) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;

/** The tool file of the GSM8K example. */
const TOOL_FILE = `tools:
  - class_name: "verl.tools.gsm8k_tool.Gsm8kTool"
    config: {}
    tool_schema:
      type: "function"
      function:
        name: "calc_gsm8k_reward"
        description: "A tool for calculating the reward of gsm8k"
        parameters:
          type: "object"
          properties:
            answer:
              type: "string"
              description: "The answer to the question"
          required: ["answer"]
`;

/** Rollout, agent-loop and tool settings in one file. */
const RUN_FILE = `actor_rollout_ref:
  rollout:
    use_agent_loop: True
    max_turns: 10
    stop_on_tool_success: True
    agent_loop_class: "examples.sglang_multiturn.gsm8k_toolcall_shaping.agent_loop.GSM8KToolAgentLoop"
    agent_loop_config:
      max_turns: 10
      tools: ["calculator"]
      stop_on_correct: True
tools:
  list:
    - name: calculator
      description: "A calculator that can evaluate mathematical expressions"
      parameters:
        type: object
        properties:
          expression:
            type: string
            description: "The mathematical expression to evaluate"
`;

const row = (extra: object = {}) =>
  taskRow({
    data_source: 'openai/gsm8k',
    prompt: [{ role: 'user', content: 'Natalia sold clips to 48 friends and half as many more.' }],
    reward_model: { style: 'rule', ground_truth: '72' },
    extra_info: {
      need_tools_kwargs: true,
      tools_kwargs: { calc_gsm8k_reward: { create_kwargs: { ground_truth: '72' } } },
    },
    ...extra,
  });

const correct = reward<ReturnType<typeof row>>('correct', ({ task, trajectory }) =>
  trajectory.text.includes(`#### ${task.groundTruth}`) ? 1 : 0,
);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rollcall-seeds-'));
  await writeFile(join(folder, 'tools.yaml'), TOOL_FILE);
  await writeFile(join(folder, 'run.yaml'), RUN_FILE);
});
afterAll(() => rm(folder, { recursive: true }));

const open = ({ options }: ResolvedRun, more: Partial<DescribedAgentOptions> = {}) =>
  openDescribedAgent({ agent: options.agent, tools: options.tools, directory: folder, correct, ...more });

async function play(
  opened: Awaited<ReturnType<typeof open>>,
  server: Pick<InferenceServer, 'generate'>,
  { options }: ResolvedRun,
  tasks = [row()],
) {
  const groups = await rollout({
    tasks: tasks.map((task, index) => ({ index, task })),
    attempts: 2,
    step: 1,
    agent: opened.agent,
    server,
    format,
    rewards: [correct],
    limits: { ...options.limits, tokensPerReply: 120, contextTokens: 2048 },
    seed: 1,
  });
  await opened.close();
  return groups.map(({ attempts }) => attempts[0]!);
}

const scripted = (reply: ScriptedEngineOptions['reply']) =>
  scriptedEngine({ tokenizer, clock: virtualClock(), reply });

test('a tool YAML and multi_turn keys give a dialogue with the GSM8K tool', async () => {
  const run = await resolveRun({
    overrides: [
      'actor_rollout_ref.rollout.multi_turn.enable=True',
      `actor_rollout_ref.rollout.multi_turn.tool_config_path=${join(folder, 'tools.yaml')}`,
      'actor_rollout_ref.rollout.multi_turn.max_assistant_turns=5',
      'actor_rollout_ref.rollout.multi_turn.format=chatml',
    ],
  });
  const server = scripted(({ turn }) =>
    turn === 0 ? call('calc_gsm8k_reward', { answer: '72' }) : '#### 72',
  );
  const [attempt] = await play(await open(run), server, run);
  expect(attempt!.trajectory.turns[0]!.toolRuns[0]!.result).toBe("Current parsed answer='72' reward=1.0");
  expect(attempt!.reward).toBe(1);
});

test('agent_name of a row decides; a single-turn row with tools given is said', async () => {
  const run = await resolveRun({
    overrides: [`actor_rollout_ref.rollout.multi_turn.tool_config_path=${join(folder, 'tools.yaml')}`],
  });
  const warnings: string[] = [];
  const opened = await open(run, { warn: (message) => warnings.push(message) });
  const server = scripted(({ turn }) => (turn === 0 ? call('calc_gsm8k_reward', { answer: '1' }) : 'end'));
  const rows = [row({ agent_name: 'tool_agent' }), row({ agent_name: 'single_turn_agent' })];
  const [looped, single] = await play(opened, server, run, rows);
  expect([looped!.trajectory.turns.length, single!.trajectory.turns.length]).toEqual([2, 1]);
  expect(warnings).toHaveLength(1);
});

test('an agent-loop class, tools and stops, as written', async () => {
  const run = await resolveRun({ file: join(folder, 'run.yaml'), overrides: [] });
  const succeeded = scripted(({ turn }) => call('calculator', { expression: turn === 0 ? '48+' : '48+24' }));
  const [stopped] = await play(await open(run), succeeded, run);
  expect(
    stopped!.trajectory.turns.map(({ toolRuns }) => toolRuns[0]!.problem?.kind ?? toolRuns[0]!.result),
  ).toEqual(['tool-threw', '72']);
  expect(stopped!.trajectory.extra.stoppedBy).toBe('tool succeeded');
  const right = scripted(() => `#### 72 ${call('calculator', { expression: '1+1' })}`);
  const [done] = await play(await open(run), right, run);
  expect(done!.trajectory.extra.stoppedBy).toBe('correct is 1');
  expect(done!.trajectory.turns[0]!.toolRuns).toEqual([]);
});

test('what cannot be opened is refused by name', async () => {
  const refused = async (...overrides: string[]) => open(await resolveRun({ overrides }));
  await expect(refused('actor_rollout_ref.rollout.agent_loop_class=path.to.MyAgentLoop')).rejects.toThrow(
    /'path.to.MyAgentLoop' is a Python class that has no counterpart/,
  );
  await expect(refused('actor_rollout_ref.rollout.agent.default_agent_loop=tool_agnet')).rejects.toThrow(
    /did you mean tool_agent\?/,
  );
  await expect(refused('tools.names=[calculater]')).rejects.toThrow(
    /there is no tool calculater; given are none/,
  );
});

test('rows of react_agent need LangGraph before the run starts, and have no simulated user', async () => {
  const hooks = `export const resolve = (name, context, next) => {
    if (name !== '@langchain/langgraph') return next(name, context);
    throw Object.assign(new Error("Cannot find package '" + name + "'"), { code: 'ERR_MODULE_NOT_FOUND' });
  }`;
  const script = `
    import { register } from 'node:module';
    register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}));
    const { builtInAgents } = await import('./src/verl/agents-by-name.ts');
    const { react_agent } = builtInAgents({ prompt: '', tools: [] });
    console.log(await react_agent.prepare().catch((error) => error.name + ': ' + error.message));`;
  const node = ['--import', './bin/register.js', '--input-type=module', '--eval', script];
  expect(execFileSync(process.execPath, node, { encoding: 'utf8' }).trim()).toBe(
    "ConfigError: the agent 'react_agent', a graph of LangGraph, needs packages that are not installed: " +
      'npm install @langchain/langgraph @langchain/core',
  );
  await writeFile(
    join(folder, 'needy.ts'),
    `import { agent } from 'rollcall';
     export const needy = { ...agent(() => {}), prepare: async () => { throw new Error('not installed'); } };`,
  );
  const needy = await open(await resolveRun({ overrides: ['agent.module=needy.ts#needy'] }));
  needy.check(row({ agent_name: 'react_agent', extra_info: {} }));
  await needy.prepare(); // for rows that were checked, and for these only
  needy.check(row({ extra_info: {} }));
  await expect(needy.prepare()).rejects.toThrow('not installed');
  await writeFile(
    join(folder, 'users.yaml'),
    'interaction:\n  - name: gsm8k\n    class_name: verl.interactions.gsm8k_interaction.Gsm8kInteraction\n    config: {}\n',
  );
  const users = { file: join(folder, 'users.yaml') };
  const opened = await open(await resolveRun({ overrides: [] }), { users });
  const asked = { interaction_kwargs: { name: 'gsm8k', query: '', ground_truth: '72' } };
  expect(() => opened.check(row({ agent_name: 'react_agent', extra_info: asked }))).toThrow(
    "the row has a simulated user, which 'react_agent' has no place for; use tool_agent",
  );
});

test('each of them runs on the embedded engine', async () => {
  const model = join(folder, 'model');
  await writeByteModel(model);
  const server = await openServer({ model, threads: 1, log: () => {} });
  try {
    const seed000 = await resolveRun({ overrides: [`tools.file=${join(folder, 'tools.yaml')}`] });
    const seed004 = await resolveRun({ file: join(folder, 'run.yaml'), overrides: [] });
    for (const run of [seed000, seed004]) {
      const [attempt] = await play(await open(run), server, run);
      const { segments, end } = attempt!.trajectory;
      expect(['completed', 'truncated']).toContain(end.kind);
      expect(segments[0]!.sampled.at(-1)).toBe(1);
    }
  } finally {
    await server.close();
  }
});
