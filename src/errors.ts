/**
 * What can go wrong, at which boundary. The class names the boundary that was crossed; the message says
 * what is wrong, with the value, and what would be right. The command line prints the message alone
 * (`--debug` adds the stack) and exits with 1.
 *
 * A model's mistake is not here: it is data in the trajectory (`Problem` in types.ts).
 */
export abstract class RollcallError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** An option, file or combination that cannot work; thrown before anything starts. */
export class ConfigError extends RollcallError {}

/** A dataset file or row that cannot be read. */
export class DatasetError extends RollcallError {}

/** A tool's `open` failed, or a tool server is gone: the environment, not the model. */
export class ToolError extends RollcallError {}

/** A reward threw, timed out or returned something that is not a finite number. */
export class RewardError extends RollcallError {}

/** An inference server failed or is gone. */
export class EngineError extends RollcallError {
  /**
   * `failed`: another try, or another server, may answer. `busy`: the server has no room now, and is otherwise sound.
   * `refused`: the request is wrong, and every server would say so.
   */
  readonly reason: 'failed' | 'busy' | 'refused';

  constructor(
    message: string,
    { reason = 'failed', ...options }: ErrorOptions & { readonly reason?: EngineError['reason'] } = {},
  ) {
    super(message, options);
    this.reason = reason;
  }
}

/** A trainer failed, or refused a call. */
export class TrainerError extends RollcallError {}
