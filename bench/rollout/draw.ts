/** The trajectories of a bench: drawn once, played by every scheduler. */
import { drawTrajectory, type LogNormal, type SimulatedTrajectory } from '../../testing/index.ts';

export interface Draw {
  readonly trajectories: number;
  readonly turns: number;
  /** Mean time of a tool call, in seconds. */
  readonly toolSeconds: number;
  /** Spread of tool times: the standard deviation of their logarithm. */
  readonly toolSigma: number;
  readonly promptTokens: number;
  readonly replyTokens: number;
  readonly resultTokens: number;
  readonly seed: number;
}

/** Four attempts at each task. */
export function drawBatch(draw: Draw): SimulatedTrajectory[] {
  const shape = {
    promptTokens: around(draw.promptTokens, 0.2),
    turns: draw.turns,
    replyTokens: around(draw.replyTokens, 0.3),
    toolMs: around(1000 * draw.toolSeconds, draw.toolSigma),
    resultTokens: around(draw.resultTokens, 0.2),
    sharedByTask: 0.5,
  };
  return Array.from({ length: draw.trajectories }, (_, at) =>
    drawTrajectory(shape, { seed: draw.seed, task: Math.floor(at / 4), attempt: at % 4 }),
  );
}

/** Log-normal with this mean. */
function around(mean: number, sigma: number): LogNormal {
  return { median: mean * Math.exp(-(sigma ** 2) / 2), sigma };
}
