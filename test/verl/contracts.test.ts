/** Classes and functions in the forms that verl's users write them, in TypeScript. */
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { reward, rollout } from 'rollcall';
import { openDescribedAgent } from 'rollcall/agents';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import { loadToolFile } from 'rollcall/tools';
import { expect, onTestFinished, test } from 'vitest';
import { realClock } from '../../src/lib/clock.ts';
import { resolveRun } from '../../src/options/resolve-run.ts';
import { openDescribedRewards } from '../../src/reward/described-rewards.ts';
import { taskRow } from '../../src/verl/task-row.ts';

const { tokenizer, format } = byteModel();

function folderWith(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'rollcall-contracts-'));
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  return folder;
}

const task = taskRow({
  data_source: 'openai/gsm8k',
  prompt: [{ role: 'user', content: 'What is 123 + 456?' }],
  reward_model: { ground_truth: '579' },
  extra_info: { tools_kwargs: { life: { create_kwargs: { start: 1 } } } },
});

async function play(
  folder: string,
  reply: ScriptedEngineOptions['reply'],
  overrides: readonly string[],
  attempts = 1,
) {
  const { options, refused } = await resolveRun({ overrides });
  expect(refused).toEqual([]);
  const { agent, tools } = options;
  const opened = await openDescribedAgent({ agent, tools, directory: folder });
  const scored = await openDescribedRewards(options.rewards, { directory: folder, clock: realClock() });
  onTestFinished(async () => {
    await opened.close();
    await scored.close();
  });
  const [group] = await rollout({
    tasks: [{ index: 0, task }],
    attempts,
    step: 1,
    agent: opened.agent,
    server: scriptedEngine({ tokenizer, reply }),
    format,
    rewards: options.rewards.module === null ? [reward('none', () => 0)] : scored.rewards,
    limits: { turns: options.limits.turns },
    seed: 1,
  });
  return group!.attempts;
}

/** The loop of a tutorial, line by line, in TypeScript. */
const LOOP = `
export class MyAgentLoop {
  constructor({ max_turns = 10, shout }) { this.maxTurns = max_turns; this.shout = shout; }
  async generate(llm_server, data) {
    const trajectories = [];
    for (const prompt of data.batch.prompt) {
      const history = [...prompt];
      for (let turn = 0; turn < this.maxTurns; turn++) {
        const response = await llm_server.generate({ prompts: [history] });
        history.push({ role: 'assistant', content: response.text[0] });
        const found = /calculator\\((.*?)\\)/.exec(response.text[0]);
        if (!found) break;
        const [a, b] = found[1].split('+').map(Number);
        history.push({ role: 'tool', content: String(a + b) + this.shout, name: 'calculator' });
        if (history.at(-1).content.includes('Final Answer')) break;
      }
      trajectories.push(history);
    }
    const output = data.clone();
    output.batch.response = trajectories;
    return output;
  }
}
`;

test('a class with generate(llm_server, data) is an agent: its replies are trained, its messages are context', async () => {
  const folder = folderWith({ 'loop.mjs': LOOP });
  const [attempt] = await play(
    folder,
    ({ turn }) => (turn === 0 ? 'Let me see: calculator(123 + 456)' : 'The answer is 579.'),
    [
      'actor_rollout_ref.rollout.agent_loop_class=loop.mjs#MyAgentLoop',
      'actor_rollout_ref.rollout.agent_loop_config.max_turns=5',
      'actor_rollout_ref.rollout.agent_loop_config.shout="!"',
    ],
  );
  const { end, messages, segments } = attempt!.trajectory;
  expect(end).toEqual({ kind: 'completed' });
  expect(messages.map(({ role, content }) => [role, content])).toEqual([
    ['user', 'What is 123 + 456?'],
    ['assistant', 'Let me see: calculator(123 + 456)'],
    ['tool', '579!'],
    ['assistant', 'The answer is 579.'],
  ]);
  expect(segments).toHaveLength(1);
  const [{ ids, trained }] = segments as [(typeof segments)[0]];
  const trainedText = format.decode(ids.filter((_, at) => trained[at] === 1));
  expect(trainedText).toContain('calculator(123 + 456)');
  expect(trainedText).not.toContain('579!');
});

test('a loop in this form that repeats a native call keeps one segment too', async () => {
  const folder = folderWith({ 'loop.mjs': LOOP });
  const call = '<tool_call>{"name": "f", "arguments": {}}</tool_call> calculator(1+2)';
  const [attempt] = await play(folder, ({ turn }) => (turn < 2 ? call : 'Done.'), [
    'actor_rollout_ref.rollout.agent_loop_class=loop.mjs#MyAgentLoop',
    'actor_rollout_ref.rollout.agent_loop_config.shout=""',
  ]);
  expect(attempt!.trajectory.segments).toHaveLength(1);
  expect(attempt!.trajectory.turns).toHaveLength(3);
});

const REWARD = `
export function my_task(data, { max_turns }) {
  return data.trajectories.map((trajectory, at) => {
    let total = trajectory.at(-1).content.includes(data.ground_truth[at]) ? 1 : 0;
    for (const turn of trajectory) if (turn.role === 'tool' && !turn.problem) total += 0.1;
    if (trajectory.length > max_turns) total -= 0.5;
    return total;
  });
}
`;

test('a reward over all trajectories of a step is an export named as a reward manager', async () => {
  const folder = folderWith({ 'shaper.mjs': REWARD });
  let asked = 0;
  const call = (name: string) =>
    `<tool_call>{"name": "${name}", "arguments": {"expression": "123+456"}}</tool_call>`;
  const attempts = await play(
    folder,
    ({ turn }) => (turn > 0 ? '579' : call(++asked === 1 ? 'calculator' : 'nothing')),
    [
      'custom_reward_function.path=shaper.mjs',
      'reward_model.reward_manager=my_task',
      'custom_reward_function.reward_kwargs={max_turns: 3}',
      'tools.names=[calculator]',
    ],
    2,
  );
  // Four messages each, more than three; one of the two calls could be run.
  expect(attempts.map((attempt) => attempt.reward).sort()).toEqual([
    expect.closeTo(0.5),
    expect.closeTo(0.6),
  ]);
});

test('final answer, repetition and failed calls end a dialogue by keys', async () => {
  const config = 'actor_rollout_ref.rollout.agent_loop_config';
  const bad = '<tool_call>{"name": "nothing", "arguments": {}}</tool_call>';
  const stopped = async (reply: ScriptedEngineOptions['reply'], key: string) => {
    const words = ['tools.names=[calculator]', `${config}.${key}`, 'limits.turns=6'];
    const [attempt] = await play('.', reply, words);
    return [attempt!.trajectory.extra.stoppedBy, attempt!.trajectory.turns.length];
  };
  expect(await stopped(() => `Final Answer: 3 ${bad}`, 'stop_on_final_answer=true')).toEqual([
    'reply says Final Answer',
    1,
  ]);
  expect(await stopped(() => bad, 'stop_on_repetition=true')).toEqual(['repeated replies', 2]);
  expect(await stopped(({ turn }) => `${turn} ${bad}`, 'max_tool_failures=3')).toEqual([
    'failed tool calls',
    3,
  ]);
});

test('a tool class may give a ToolResponse and score by calc_reward', async () => {
  const folder = folderWith({
    'tools.mjs': `export class Life {
      create(id, { start }) { this.value = start }
      execute() { this.value++; return [{ text: 'now ' + this.value }, 0.5, { calls: 1 }] }
      calc_reward() { return this.value }
    }`,
    'tools.yaml': 'tools: [{class_name: tools.mjs#Life, tool_schema: {function: {name: life}}}]',
  });
  const [attempt] = await play(
    folder,
    ({ turn }) => (turn === 0 ? '<tool_call>{"name": "life", "arguments": {}}</tool_call>' : 'ok'),
    [`tools.file=${join(folder, 'tools.yaml')}`],
  );
  const { turns, extra } = attempt!.trajectory;
  expect(turns[0]!.toolRuns[0]).toMatchObject({ result: 'now 2', reward: 0.5, metrics: { calls: 1 } });
  expect(extra.toolScores).toEqual({ life: 2 });
});

test('files that a tool YAML names lie beside it', async () => {
  const folder = folderWith({
    'tools.yaml': 'tools: [{name: search, config: {documents: corpus.jsonl}}]',
    'corpus.jsonl': '{"contents": "Paris\\nthe capital of France"}\n',
  });
  const box = await loadToolFile(join(folder, 'tools.yaml'));
  expect(box.tools.map(({ name }) => name)).toEqual(['search']);
  await box.close();
  const missing = folderWith({ 'tools.yaml': 'tools: [{name: f, module: none.ts#f}]' });
  await expect(loadToolFile(join(missing, 'tools.yaml'))).rejects.toThrow(
    `there is no file ${join(missing, 'none.ts')} nor ${join(process.cwd(), 'none.ts')}`,
  );
});

test('paths in a run file lie beside it, or in the working directory', async () => {
  const folder = folderWith({
    'run.yaml': 'tasks: {files: [a.jsonl, b.jsonl]}\nrewards: {module: reward.ts}\nmodel: no/model\n',
    'a.jsonl': '',
    'reward.ts': '',
  });
  const file = join(folder, 'run.yaml');
  const { options, missing } = await resolveRun({ file, overrides: [] });
  expect(options.tasks.files).toEqual([join(folder, 'a.jsonl'), 'b.jsonl']);
  expect(options.rewards.module).toBe(join(folder, 'reward.ts'));
  expect(missing).toContain(
    `tasks.files: there is no file b.jsonl in the working directory, ${process.cwd()}`,
  );
});

test('a Python module is answered with how the same is written here', async () => {
  const { missing } = await resolveRun({
    overrides: [
      'custom_reward_function.path=my_reward.py',
      'actor_rollout_ref.rollout.agent_loop_class=my_loop.py#MyAgentLoop',
    ],
  });
  expect(missing).toContainEqual(
    expect.stringMatching(/rewards.module: my_reward.py is Python; .*export function compute_score\(/),
  );
  expect(missing).toContainEqual(
    expect.stringMatching(/agent.module: my_loop.py#MyAgentLoop is Python; .*generate\(llm_server, data\)/),
  );
  const byPath = (path: string) =>
    resolveRun({ overrides: [`actor_rollout_ref.rollout.agent_loop_class=${path}`] });
  expect((await byPath('path.to.MyAgentLoop')).missing).toContainEqual(
    expect.stringContaining('agent.module: path.to.MyAgentLoop is Python; write agents.ts'),
  );
  expect((await byPath('verl.tool_agent_loop.ToolAgentLoop')).missing.join()).not.toContain('agent.module');
});
