import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type AgentCard, type Message, type Part, Role, TaskState } from '@a2a-js/sdk';
import {
  AgentEvent,
  type AgentExecutor,
  DefaultRequestHandler,
  InMemoryTaskStore,
  JsonRpcTransportHandler,
  ServerCallContext,
} from '@a2a-js/sdk/server';
import { rollout, toolLoop } from 'rollcall';
import { byteModel, type ScriptedEngineOptions, scriptedEngine } from 'rollcall/testing';
import { a2aTools, type ToolSchema, toA2aSkills } from 'rollcall/tools';
import { expect, onTestFinished, test } from 'vitest';

const { tokenizer, format } = byteModel();
const call = (name: string, given: object = {}) =>
  `<tool_call>{"name": "${name}", "arguments": ${JSON.stringify(given)}}</tool_call>`;
const text = (value: string): Part => ({
  content: { $case: 'text', value },
  metadata: undefined,
  filename: '',
  mediaType: 'text/plain',
});

const schema = (name: string): ToolSchema => ({
  type: 'function',
  function: {
    name,
    description: `Does ${name}.`,
    parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  },
});

/** A real A2A server on a free port: `weather` answers at once, `plan` by a task, `refuse` by a failed one. */
async function serve(withSchemas: boolean) {
  const contexts: string[] = [];
  const { skills, extension } = toA2aSkills(['weather', 'plan', 'refuse'].map(schema));
  const http = createServer();
  await new Promise<void>((ready) => http.listen(0, '127.0.0.1', ready));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const card: AgentCard = {
    name: 'helper',
    description: '',
    supportedInterfaces: [
      { url: `${url}/a2a`, protocolBinding: 'JSONRPC', tenant: '', protocolVersion: '1.0' },
    ],
    provider: undefined,
    version: '1',
    capabilities: {
      streaming: false,
      pushNotifications: false,
      extensions: withSchemas
        ? [{ ...extension, description: '', required: false, params: { ...extension.params } }]
        : [],
      extendedAgentCard: false,
    },
    securitySchemes: {},
    securityRequirements: [],
    defaultInputModes: ['text/plain', 'application/json'],
    defaultOutputModes: ['text/plain'],
    skills: skills.map((skill) => ({
      ...skill,
      tags: [...skill.tags],
      examples: [],
      inputModes: [],
      outputModes: [],
      securityRequirements: [],
    })),
    signatures: [],
  };
  const executor: AgentExecutor = {
    execute: async ({ userMessage, taskId, contextId }, bus) => {
      contexts.push(contextId);
      const [part] = userMessage.parts;
      const asked =
        part?.content?.$case === 'data' ? JSON.stringify(part.content.value) : String(part?.content?.value);
      const skill = String(part?.metadata?.skill);
      const message: Message = {
        messageId: `reply-${contexts.length}`,
        contextId,
        taskId: '',
        role: Role.ROLE_AGENT,
        parts: [text(`${skill} of ${asked}`)],
        metadata: undefined,
        extensions: [],
        referenceTaskIds: [],
      };
      if (skill === 'weather') {
        bus.publish(AgentEvent.message(message));
      } else {
        const state = skill === 'plan' ? TaskState.TASK_STATE_COMPLETED : TaskState.TASK_STATE_FAILED;
        bus.publish(
          AgentEvent.task({
            id: taskId,
            contextId,
            status: { state, message: { ...message, parts: [text('not today')] }, timestamp: undefined },
            artifacts:
              skill === 'plan'
                ? [
                    {
                      artifactId: 'a',
                      name: '',
                      description: '',
                      parts: [text(`a plan for ${asked}`)],
                      metadata: undefined,
                      extensions: [],
                    },
                  ]
                : [],
            history: [],
            metadata: undefined,
          }),
        );
      }
      bus.finished();
    },
    cancelTask: async () => {},
  };
  const handler = new JsonRpcTransportHandler(
    new DefaultRequestHandler(card, new InMemoryTaskStore(), executor),
  );
  http.on('request', (request, response) => {
    let body = '';
    request.on('data', (chunk) => {
      body += chunk;
    });
    request.on('end', async () => {
      const json = request.url?.includes('.well-known')
        ? card
        : await handler.handle(JSON.parse(body), new ServerCallContext({ requestedVersion: '1.0' }));
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(json));
    });
  });
  onTestFinished(() => {
    http.closeAllConnections();
    http.close();
  });
  return { url, contexts, http };
}

async function play(
  tools: Awaited<ReturnType<typeof a2aTools>>['tools'],
  reply: ScriptedEngineOptions['reply'],
) {
  const [group] = await rollout({
    tasks: [{ index: 0, task: {} }],
    attempts: 1,
    step: 1,
    agent: toolLoop({ prompt: 'go', tools }),
    server: scriptedEngine({ tokenizer, reply }),
    format,
    rewards: [],
    seed: 1,
    failures: { retries: 0, tolerateShare: 1 },
  });
  return group!.attempts[0]!.trajectory;
}

test('skills of an A2A agent are tools: by message, by task, refused, and gone', async () => {
  const { url, contexts, http } = await serve(true);
  const { tools } = await a2aTools({ url });
  expect(tools.map((one) => one.schema)).toEqual(['weather', 'plan', 'refuse'].map(schema));
  const city = { city: 'Oslo' };
  const trajectory = await play(tools, ({ turn }) =>
    turn === 0 ? call('weather', city) + call('plan', city) + call('refuse', city) + call('weather') : 'done',
  );
  expect(trajectory.turns[0]!.toolRuns.map(({ result }) => result)).toEqual([
    'weather of {"city":"Oslo"}',
    'a plan for {"city":"Oslo"}',
    "Error executing tool 'refuse': not today",
    "Invalid arguments for 'weather': must have required property 'city'.",
  ]);
  expect(new Set(contexts)).toEqual(new Set([trajectory.id])); // one dialogue with the agent per trajectory
  http.closeAllConnections();
  http.close();
  const gone = await play(tools, () => call('weather', city));
  expect(gone.end).toMatchObject({ kind: 'failed', boundary: 'environment' });
});

test('a skill without a schema takes a message; unknown skills and dead addresses are said', async () => {
  const { url } = await serve(false);
  const { tools } = await a2aTools({ url, names: ['weather'] });
  expect(tools).toHaveLength(1);
  const trajectory = await play(tools, ({ turn }) =>
    turn === 0 ? call('weather', { message: 'Rome?' }) : 'done',
  );
  expect(trajectory.turns[0]!.toolRuns[0]!.result).toBe('weather of Rome?');
  await expect(a2aTools({ url, names: ['sing'] })).rejects.toThrow(
    /no skill sing; it has weather, plan, refuse/,
  );
  await expect(a2aTools({ url: 'http://127.0.0.1:9' })).rejects.toThrow(/cannot be reached/);
});
