/** The agents of `npm run bench endpoint`, in a process of their own: an endpoint a line, then the time of each of its turns. */
import { Agent, request } from 'node:http';
import { createInterface } from 'node:readline';

export interface ClientJob {
  readonly number: number;
  readonly openai: string;
  readonly apiKey: string;
  readonly prompt: string;
  readonly turns: number;
}

export interface ClientResult {
  readonly number: number;
  readonly milliseconds: readonly number[];
}

const agent = new Agent({ keepAlive: true });

for await (const line of createInterface({ input: process.stdin })) void work(JSON.parse(line) as ClientJob);
agent.destroy();

async function work({ number, openai, apiKey, prompt, turns }: ClientJob): Promise<void> {
  const messages: object[] = [{ role: 'user', content: prompt }];
  const milliseconds: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    const asked = performance.now();
    const reply = await post(`${openai}/chat/completions`, apiKey, JSON.stringify({ messages }));
    milliseconds.push(performance.now() - asked);
    const { choices } = JSON.parse(reply) as { choices: { message: object }[] };
    messages.push(choices[0]!.message, { role: 'user', content: 'go on' });
  }
  console.log(JSON.stringify({ number, milliseconds } satisfies ClientResult));
}

function post(url: string, apiKey: string, body: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${apiKey}`, 'content-length': Buffer.byteLength(body) };
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () => (response.statusCode === 200 ? resolve(text) : reject(new Error(text))));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
