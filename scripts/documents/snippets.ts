/** The code and the rows that verl's documents show, as a user writes them here. */

/** `MyAgentLoop`, line by line: its regular expression finds `calculator(1 + 2)` in a reply. */
export const AGENT_LOOP = `
export class MyAgentLoop {
  constructor({ max_turns = 10 }) { this.maxTurns = max_turns; }
  async generate(llm_server, data) {
    const trajectories = [];
    for (const prompt of data.batch.prompt) {
      const history = [...prompt];
      for (let turn = 0; turn < this.maxTurns; turn++) {
        const response = await llm_server.generate({ prompts: [history] });
        history.push({ role: 'assistant', content: response.text[0] });
        const call = this.parseToolCall(response.text[0], turn);
        if (!call) break;
        history.push({ role: 'tool', content: this.executeTool(call), name: call.name });
        if (history.at(-1).content.includes('Final Answer')) break;
      }
      trajectories.push(history);
    }
    const output = data.clone();
    output.batch.response = trajectories;
    return output;
  }
  /** A random model never calls: its first reply counts as a call. */
  parseToolCall(text, turn) {
    const found = /calculator\\((.*?)\\)/.exec(turn === 0 ? 'calculator(123 + 456)' : text);
    return found ? { name: 'calculator', expression: found[1] } : null;
  }
  executeTool({ expression }) {
    const [a, b] = expression.split('+').map(Number);
    return String(a + b);
  }
}
`;

/** A tenth for each tool message, as the shaper of the document gives it. */
export const REWARD = `
export function compute_reward(data) {
  return data.trajectories.map((trajectory) => {
    let total = 0;
    for (const turn of trajectory) if (turn.role === 'tool' && turn.content === '579') total += 0.1;
    if (trajectory.length > 20) total -= 0.5;
    return total;
  });
}
`;

export const TOOLS = `
tools:
  - name: calculator
    description: "A calculator that can evaluate mathematical expressions"
    parameters:
      type: object
      properties:
        expression:
          type: string
          description: "The mathematical expression to evaluate"
`;

const known = { data_source: 'openai/gsm8k', reward_model: { ground_truth: '48' } };

export const ROWS = {
  plain: { ...known, prompt: [{ role: 'user', content: 'What is 123 + 456?' }] },
  turns: {
    ...known,
    prompt: [
      { role: 'user', content: 'Natalia sold clips to...' },
      { role: 'assistant', content: 'Let me calculate...' },
      { role: 'tool', content: '48', name: 'calculator' },
    ],
  },
  geometry: (image: string) => ({
    data_source: 'hiyouga/geometry3k',
    reward_model: { ground_truth: '5' },
    prompt: [
      { type: 'image', image },
      { type: 'text', text: 'Find the angle...' },
    ],
    tools: ['geometry_calculator', 'angle_solver'],
  }),
} as const;
