/** What `--agent-command` of `train` and `preview` does. */
export const AGENT_COMMAND =
  "instead of the run's agent, a command per attempt; it finds OPENAI_BASE_URL, ANTHROPIC_BASE_URL, their keys and ROLLCALL_TASK " +
  'in its environment (docs/processes.md)';
