import type { AgentContext, Task } from 'rollcall';

/** One trajectory: sample, run the calls in the sandbox, repeat. `agent_loop_config` arrives in the constructor. */
export class GetStartedLoop {
  readonly #maxTurns: number;

  constructor({ max_turns: maxTurns = 6 }: { max_turns?: number }) {
    this.#maxTurns = maxTurns;
  }

  async run({ task, model, tools }: AgentContext<Task>): Promise<void> {
    const chat = model.chat({ tools, messages: task.prompt as { role: 'user'; content: string }[] });
    for (let turn = 0; turn < this.#maxTurns; turn++) {
      const reply = await chat.sample();
      if (reply.final) return;
      await chat.runTools(reply);
    }
  }
}
