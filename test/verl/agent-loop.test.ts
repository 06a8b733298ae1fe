/** What verl's agent loop does, row by row of its feature table (B: loops, J: limits), and where we do better. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Agent, agent, type Limits, type Message, reward, rollout, type Task, tool } from 'rollcall';
import {
  agentsByName,
  builtInAgents,
  failedToolCalls,
  isCorrect,
  loadAgent,
  loadAgentFile,
  repeatedReplies,
  replySays,
  toolSucceeded,
} from 'rollcall/agents';
import { byteModel, type ScriptedEngineOptions, scriptedEngine, virtualClock } from 'rollcall/testing';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';

const { tokenizer, format } = byteModel();
const call = (name: string, given: object = {}) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;

const counted = () => {
  const runs: unknown[] = [];
  const count = tool({
    name: 'count',
    description: '',
    input: {},
    run: (input) => {
      runs.push(input);
      return String(runs.length);
    },
  });
  return { runs, count };
};
const promptOf = (task: Task): readonly Message[] => [
  { role: 'user', content: String(task.question ?? 'go') },
];

async function play(
  one: Agent,
  reply: ScriptedEngineOptions['reply'],
  { limits = {}, tasks = [{}] }: { limits?: Partial<Limits>; tasks?: readonly Task[] } = {},
) {
  const clock = virtualClock();
  const engine = scriptedEngine({ tokenizer, clock, reply });
  const groups = await rollout({
    tasks: tasks.map((task, index) => ({ index, task })),
    attempts: 1,
    step: 1,
    agent: one,
    server: engine,
    format,
    rewards: [reward('one', () => 1)],
    limits,
    seed: 1,
    clock,
    failures: { tolerateShare: 1 },
  });
  const trajectories = groups.map(({ attempts }) => attempts[0]!.trajectory);
  return { trajectories, trajectory: trajectories[0]!, engine };
}

describe('verl 1.B', () => {
  test('B1: the agent gets the whole row, and each trajectory its own instance', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'rollcall-'));
    await writeFile(
      join(folder, 'agents.ts'),
      `export class Counting {
        rounds = 0;
        limit: number;
        constructor(config: { limit: number }) { this.limit = config.limit; }
        async run({ task, model, extra }) {
          const chat = model.chat();
          while (this.rounds++ < this.limit) { chat.user(task.extra_info.index); await chat.sample(); }
          extra.rounds = this.rounds;
        }
      }`,
    );
    const loaded = await loadAgent(
      'agents.ts#Counting',
      { limit: 2 },
      { directory: folder, tools: [], builtIn: {} },
    );
    const { trajectories } = await play(loaded, () => 'ok', {
      tasks: [{ extra_info: { index: 'a' } }, { extra_info: { index: 'b' } }],
    });
    expect(trajectories.map(({ turns, extra }) => [turns.length, extra.rounds])).toEqual([
      [2, 3],
      [2, 3],
    ]);
    expect(trajectories[1]!.messages[0]).toEqual({ role: 'user', content: 'b' });
  });

  test('B2: agent_name chooses the loop per sample, a default where it is absent, an unknown one lists all', async () => {
    const { count, runs } = counted();
    const warnings: string[] = [];
    const agents = builtInAgents({ prompt: promptOf, tools: [count] });
    await agents.react_agent!.prepare!(); // a virtual clock does not wait for packages to load
    const mixed = agentsByName({
      agents,
      default: 'tool_agent',
      warn: (message) => warnings.push(message),
    });
    const { trajectories } = await play(mixed, ({ turn }) => (turn === 0 ? call('count') : 'done'), {
      tasks: [
        {},
        { agent_name: 'single_turn_agent' },
        { agentName: 'react_agent' },
        { agent_name: 'tool_agnet' },
      ],
    });
    expect(trajectories.map(({ turns }) => turns.length)).toEqual([2, 1, 2, 0]);
    expect(runs).toHaveLength(2);
    expect(trajectories[3]!.end).toMatchObject({
      boundary: 'agent',
      message: expect.stringMatching(
        /no agent 'tool_agnet'; did you mean tool_agent\? Registered: single_turn_agent, /,
      ),
    });
    expect(warnings).toHaveLength(1);
    expect(warnings[0]).toMatch(
      /task 1 runs single_turn_agent, which offers no tools, although 1 are given \(count\)/,
    );
  });

  test('B3: an agent-loop YAML adds agents; its other keys are their arguments; a missing file is said', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'rollcall-'));
    await writeFile(
      join(folder, 'agents.ts'),
      `import { agent } from 'rollcall';
       export const polite = ({ greeting }) => agent(async ({ model }) => {
         const chat = model.chat(); chat.user(greeting); await chat.sample();
       });`,
    );
    await writeFile(
      join(folder, 'agents.yaml'),
      '- name: polite\n  _target_: agents.ts#polite\n  greeting: good morning\n' +
        '- name: gsm\n  _target_: examples.sglang_multiturn.gsm8k_toolcall_shaping.agent_loop.GSM8KToolAgentLoop\n',
    );
    const builtIn = builtInAgents({ prompt: promptOf, tools: [] });
    const agents = await loadAgentFile(join(folder, 'agents.yaml'), { tools: [], builtIn });
    expect(agents.gsm).toBe(builtIn.tool_agent);
    const { trajectory } = await play(agents.polite!, () => 'ok');
    expect(trajectory.messages[0]!.content).toBe('good morning');
    await expect(loadAgentFile('nowhere.yaml', { tools: [], builtIn })).rejects.toThrow(
      /Agent loop configuration file not found: .*nowhere.yaml/,
    );
    await expect(
      loadAgent('path.to.MyAgentLoop', {}, { directory: folder, tools: [], builtIn }),
    ).rejects.toThrow(/Write the agent in TypeScript and name it `path.ts#Export`/);
  });

  test('B4: a single turn is one generation, also an empty one', async () => {
    const single = builtInAgents({ prompt: promptOf, tools: [] }).single_turn_agent!;
    expect((await play(single, () => call('count'))).trajectory.turns).toHaveLength(1);
    const { trajectory } = await play(single, () => ({ ids: [] }));
    expect(trajectory.end.kind).toBe('completed');
    expect(trajectory.turns).toMatchObject([{ finish: 'stop', toolCalls: [] }]);
  });

  test('B5: after a reply tokens are checked first, then turns, then answers; only then calls are run', async () => {
    const { count, runs } = counted();
    const loop = builtInAgents({ prompt: promptOf, tools: [count] }).tool_agent!;
    const reply = () => call('count');
    const length = tokenizer.encode(call('count')).length + 1;
    const ends = async (limits: Partial<Limits>) => {
      runs.length = 0;
      const { trajectory } = await play(loop, reply, { limits });
      return [trajectory.end.kind === 'truncated' ? trajectory.end.why : trajectory.end.kind, runs.length];
    };
    expect(await ends({ turns: 1, tokensPerTrajectory: length })).toEqual(['tokens', 0]);
    expect(await ends({ turns: 1 })).toEqual(['turns', 0]);
    expect(await ends({ turns: 3 })).toEqual(['turns', 2]);
    expect(await ends({ answers: 1 })).toEqual(['turns', 1]);
  });

  test('B6: tools see the history, and what they leave for later reaches the reward', async () => {
    const seen: string[] = [];
    const spy = tool({
      name: 'spy',
      description: '',
      input: {},
      run: (_, { trajectory }) => {
        seen.push(trajectory.messages.map(({ role }) => role).join());
        trajectory.extra.calls = Number(trajectory.extra.calls ?? 0) + 1;
        return 'ok';
      },
    });
    const loop = builtInAgents({ prompt: promptOf, tools: [spy] }).tool_agent!;
    const { trajectory } = await play(loop, ({ turn }) => (turn < 2 ? call('spy') : 'done'));
    expect(seen).toEqual(['user,assistant', 'user,assistant,tool,assistant']);
    expect(trajectory.extra.calls).toBe(2);
  });

  test('B7: one tool round is two replies and one answer; a dropped answer is not one', async () => {
    const { count } = counted();
    const loop = builtInAgents({ prompt: promptOf, tools: [count] }).tool_agent!;
    const roles = async (limits: Partial<Limits>) =>
      (
        await play(loop, ({ turn }) => (turn === 0 ? call('count') : 'done'), { limits })
      ).trajectory.messages.map(({ role }) => role);
    expect(await roles({})).toEqual(['user', 'assistant', 'tool', 'assistant']);
    const tokens = tokenizer.encode(call('count')).length + 1;
    expect(await roles({ tokensPerTrajectory: tokens + 5 })).toEqual(['user', 'assistant']);
  });

  test('B8: the output has tokens, masks, log-probs, turns and times; an agent that sets its reward is not scored', async () => {
    const { count } = counted();
    const scored: string[] = [];
    const spy = reward('spy', ({ trajectory }) => scored.push(trajectory.id));
    const own = agent(
      async ({ task, model, tools, reward: rewardItself, extra }) => {
        const chat = model.chat({ tools });
        chat.user('go');
        await chat.runTools(await chat.sample());
        await chat.sample();
        extra.note = 'kept';
        if (task.own !== undefined) {
          rewardItself(-1);
          rewardItself(task.own as number);
        }
      },
      { tools: [count] },
    );
    const engine = scriptedEngine({ tokenizer, reply: ({ turn }) => (turn === 0 ? call('count') : 'done') });
    const groups = await rollout({
      tasks: [{ own: 0.25 }, {}, { own: Number.NaN }].map((task, index) => ({ index, task })),
      attempts: 1,
      step: 1,
      agent: own,
      server: engine,
      format,
      rewards: [spy],
      seed: 1,
      failures: { tolerateShare: 1 },
    });
    const [first, second, third] = groups.map(({ attempts }) => attempts[0]!);
    expect([first!.reward, first!.rewards, first!.trajectory.ownReward]).toEqual([
      0.25,
      { agent: 0.25 },
      0.25,
    ]);
    expect([second!.reward, second!.rewards, scored]).toEqual([1, { spy: 1 }, [second!.trajectory.id]]);
    expect(third!.trajectory.end).toMatchObject({
      boundary: 'agent',
      message: expect.stringMatching(/own reward is NaN; it must be a finite number/),
    });
    const { segments, turns, spans, extra } = first!.trajectory;
    const [{ ids, sampled, logprobs, versions }] = segments as [(typeof segments)[number]];
    const prompt = engine.requests[0]!.prompt.length;
    const [reply] = engine.replies; // the first of each trajectory are alike
    expect(ids.slice(prompt, prompt + reply!.ids.length)).toEqual(reply!.ids);
    expect(logprobs.slice(prompt, prompt + reply!.ids.length)).toEqual(reply!.logprobs);
    expect([sampled[prompt - 1], sampled[prompt], versions[prompt - 1], versions[prompt]]).toEqual([
      0, 1, -1, 0,
    ]);
    expect([turns.length, extra.note]).toEqual([2, 'kept']);
    expect([...new Set(spans.map(({ kind }) => kind))].sort()).toEqual(
      expect.arrayContaining(['generate', 'tool']),
    );
  });

  test('B9: several outputs of one session are segments with one reward', async () => {
    const compressing = agent(async ({ model }) => {
      const first = model.chat();
      first.user('a long story');
      const summary = await first.sample();
      const second = model.chat({ system: `Before: ${summary.content}` });
      second.user('go on');
      await second.sample();
    });
    const { trajectory } = await play(compressing, ({ turn }) => `part ${turn}`);
    expect(trajectory.segments).toHaveLength(2);
    expect(trajectory.turns.map(({ segment }) => segment)).toEqual([0, 1]);
  });

  test("B11: ReAct is a graph of LangGraph with the run's tools; it gives what the tool loop gives", async () => {
    const scored = tool({
      name: 'scored',
      description: 'Half a point.',
      input: z.object({ n: z.number() }),
      run: ({ n }) => ({ content: `${n} counted`, reward: 0.5, metrics: { n } }),
    });
    const slow = tool({
      name: 'slow',
      description: '',
      input: {},
      timeoutMs: 10,
      run: () => new Promise(() => {}),
    });
    const given = { prompt: promptOf, tools: [scored, slow] };
    const builtIn = builtInAgents(given);
    for (const name of ['recipe.langgraph_agent.react_agent_loop.ReactAgentLoop', 'RectAgentLoop']) {
      const options = { directory: '.', tools: given.tools, builtIn };
      expect(await loadAgent(name, {}, options)).toBe(builtIn.react_agent);
    }
    await builtIn.react_agent!.prepare!();
    const said = [
      `${call('scored', { n: 1 })}\n${call('scored', { n: 2 })}\n${call('scored', { n: 3 })}`,
      'Now <tool_call>{"name": "scored",</tool_call>',
      `${call('scored', { n: 'one' })}\n${call('nowhere')}`,
      call('slow'),
      'done',
    ];
    const limits = { callsPerTurn: 2, tokensPerToolResult: 60 };
    const compared = async (one: Agent, extra: Partial<Limits> = {}) => {
      const { trajectory } = await play(one, ({ turn }) => said[turn]!, { limits: { ...limits, ...extra } });
      const { id: _, ...rest } = trajectory;
      return {
        ...rest,
        spans: rest.spans.map(({ name, ...span }) => ({
          ...span,
          name: name.replace(/^(react|tool)_agent$/, 'agent'),
        })),
      };
    };
    const react = await compared(builtIn.react_agent!);
    expect(react).toEqual(await compared(builtIn.tool_agent!));
    const problems = react.turns.map(({ problems: unread, toolRuns }) =>
      [...unread, ...toolRuns.flatMap(({ problem }) => problem ?? [])].map(({ kind }) => kind),
    );
    expect(problems).toEqual([
      ['too-many-calls'],
      ['malformed-call'],
      ['bad-arguments', 'unknown-tool'],
      ['tool-timeout'],
      [],
    ]);
    expect(react.turns[0]!.toolRuns[1]).toMatchObject({
      result: '2 counted',
      reward: 0.5,
      metrics: { n: 2 },
    });
    expect(await compared(builtIn.react_agent!, { turns: 3 })).toMatchObject({
      end: { kind: 'truncated', why: 'turns' },
    });
    const stopping = builtInAgents({ ...given, stopWhen: [failedToolCalls(2)] });
    const stopped = await compared(stopping.react_agent!);
    expect([stopped.turns.length, stopped.extra.stoppedBy]).toEqual([2, 'failed tool calls']);
    expect(stopped).toEqual(await compared(stopping.tool_agent!));
  });

  test('B12: a row may choose among the tools; prompt, parser and error list follow it', async () => {
    const { count } = counted();
    const other = tool({ name: 'other', description: '', input: {}, run: () => 'other' });
    const loop = builtInAgents({
      prompt: promptOf,
      tools: [count, other],
      toolsOf: (task: Task) => task.tools as readonly string[] | undefined,
    }).tool_agent!;
    const reply: ScriptedEngineOptions['reply'] = ({ turn }) => (turn === 0 ? call('count') : 'done');
    const { trajectories, engine } = await play(loop, reply, {
      tasks: [{ tools: ['other', 'unknown'] }, {}],
    });
    expect(tokenizer.decode(engine.requests[0]!.prompt)).not.toContain('"count"');
    expect(trajectories[0]!.turns[0]!.toolRuns[0]!.result).toBe(
      "Unknown tool 'count'. Available tools: other.",
    );
    expect(trajectories[1]!.turns[0]!.toolRuns[0]!.result).toBe('1');
  });

  test('B13: one bad sample does not end the others', async () => {
    const fragile = agent(async ({ task, model }) => {
      if (task.bad) throw new Error('bad row');
      const chat = model.chat();
      chat.user('go');
      await chat.sample();
    });
    const { trajectories } = await play(fragile, () => 'ok', { tasks: [{}, { bad: true }, {}] });
    expect(trajectories.map(({ end }) => end.kind)).toEqual(['completed', 'failed', 'completed']);
  });
});

describe('verl 1.J', () => {
  const { count, runs } = counted();
  const loop = builtInAgents({ prompt: promptOf, tools: [count] }).tool_agent!;

  test('max_assistant_turns: so many replies', async () => {
    const { trajectory } = await play(loop, () => call('count'), { limits: { turns: 4 } });
    expect([trajectory.turns.length, trajectory.end]).toEqual([4, { kind: 'truncated', why: 'turns' }]);
  });

  test('max_user_turns: with 1, reply, tool, reply, end', async () => {
    const { trajectory } = await play(loop, () => call('count'), { limits: { answers: 1 } });
    expect(trajectory.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant']);
  });

  test('max_parallel_calls: per reply; the others are told, not dropped', async () => {
    runs.length = 0;
    const { trajectory } = await play(loop, ({ turn }) => (turn === 0 ? call('count').repeat(3) : 'done'), {
      limits: { callsPerTurn: 1 },
    });
    expect(runs).toHaveLength(1);
    expect(trajectory.turns[0]!.toolRuns.map(({ problem }) => problem?.kind)).toEqual([
      undefined,
      'too-many-calls',
      'too-many-calls',
    ]);
  });

  test('response_length: all turns, answers included, the first prompt not', async () => {
    const { trajectory } = await play(loop, () => call('count'), { limits: { tokensPerTrajectory: 300 } });
    const [{ ids, sampled }] = trajectory.segments as [(typeof trajectory.segments)[number]];
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'tokens' });
    expect(ids.length - sampled.indexOf(1)).toBeLessThanOrEqual(300);
  });

  test('max_model_len: prompt and everything after it', async () => {
    const { trajectory } = await play(loop, () => call('count'), { limits: { contextTokens: 300 } });
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'context' });
    expect(trajectory.segments[0]!.ids.length).toBeLessThanOrEqual(300);
  });

  test('engine finish length: the trajectory stops, and no call is run', async () => {
    runs.length = 0;
    const { trajectory } = await play(loop, () => ({ text: call('count'), finish: 'length' }));
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'tokens' });
    expect(runs).toHaveLength(0);
  });
});

describe('stops in the agent-loop settings', () => {
  const { count } = counted();
  const broken = tool({
    name: 'broken',
    description: '',
    input: {},
    run: () => {
      throw new Error('no');
    },
  });
  const stopped = async (
    stop: Parameters<typeof builtInAgents>[0]['stopWhen'],
    reply: ScriptedEngineOptions['reply'],
  ) => {
    const loop = builtInAgents({ prompt: promptOf, tools: [count, broken], stopWhen: stop ?? [] })
      .tool_agent!;
    const { trajectory } = await play(loop, reply);
    expect(trajectory.end.kind).toBe('completed');
    expect(trajectory.segments[0]!.sampled.at(-1)).toBe(1);
    return [trajectory.turns.length, trajectory.extra.stoppedBy];
  };

  test('stop_on_tool_success', async () => {
    const reply: ScriptedEngineOptions['reply'] = ({ turn }) => call(turn < 2 ? 'broken' : 'count');
    expect(await stopped([toolSucceeded()], reply)).toEqual([3, 'tool succeeded']);
  });

  test('stop_on_correct: which reward decides is given', async () => {
    const five = reward('five', ({ trajectory }) => (trajectory.text.includes('is 5') ? 1 : 0));
    const reply: ScriptedEngineOptions['reply'] = ({ turn }) => `is ${turn + 3} ${call('count')}`;
    expect(await stopped([isCorrect(five)], reply)).toEqual([3, 'five is 1']);
  });

  test('Final Answer, repetition, three failed calls', async () => {
    const reply: ScriptedEngineOptions['reply'] = ({ turn }) =>
      `${turn === 3 ? 'Final Answer' : turn} ${call('count')}`;
    expect(await stopped([replySays('Final Answer')], reply)).toEqual([4, 'reply says Final Answer']);
    expect(await stopped([repeatedReplies(3)], () => `again ${call('count')}`)).toEqual([
      3,
      'repeated replies',
    ]);
    const failing: ScriptedEngineOptions['reply'] = ({ turn }) =>
      turn === 1 ? '<tool_call>{' : call('broken');
    expect(await stopped([failedToolCalls(3)], failing)).toEqual([3, 'failed tool calls']);
  });

  test('timeout_per_turn: a reply that takes longer is cut there', async () => {
    const clock = virtualClock();
    const engine = scriptedEngine({ tokenizer, clock, tokenMs: 1000, reply: () => 'a slow reply' });
    const loop = builtInAgents({ prompt: promptOf, tools: [] }).tool_agent!;
    const [group] = await rollout({
      tasks: [{ index: 0, task: {} }],
      attempts: 1,
      step: 1,
      agent: loop,
      server: engine,
      format,
      rewards: [],
      limits: { secondsPerReply: 5 },
      seed: 1,
      clock,
    });
    const { trajectory } = group!.attempts[0]!;
    expect(trajectory.end).toEqual({ kind: 'truncated', why: 'time' });
    expect(trajectory.turns[0]!.end - trajectory.turns[0]!.start).toBe(5);
    expect(clock.now()).toBe(5000);
  });
});
