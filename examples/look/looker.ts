import { type Agent, type Limits, reward, type Tool, tool, toolLoop } from 'rollcall';
import type { TrajectoryReward } from 'rollcall/rewards';
import { encodePng } from 'rollcall/services';
import type { ToolContext } from 'rollcall/tools';
import { z } from 'zod';
import { type Box, blank, view } from './draw.ts';
import type { Scene, Turn } from './scene.ts';

/** A picture and what is asked about it. */
export type Look = {
  readonly scene: Scene;
  /** What is shown at first; the whole unless it is a drill. */
  readonly box: Box;
  readonly question: string;
  readonly answer: string;
};

export interface LookerOptions {
  /** Without them the model has its first look only. */
  readonly hasTools?: boolean;
  /** Shows grey instead of pictures. */
  readonly isBlind?: boolean;
}

/** Where the model looks now; its tools share it. */
interface Gaze {
  box: Box;
  turn: Turn;
}

type Context = Pick<ToolContext, 'task' | 'trajectory' | 'image'>;

function gazeOf({ task, trajectory }: Context): Gaze {
  trajectory.extra['gaze'] ??= { box: (task as Look).box, turn: 0 };
  return trajectory.extra['gaze'] as Gaze;
}

/** The agent: a look at the whole, then zoom and rotate until it answers. */
export function createLooker({ hasTools = true, isBlind = false }: LookerOptions = {}): Agent<Look> {
  const shown = (scene: Scene, box: Box, turn: Turn) =>
    encodePng(isBlind ? blank(box) : view(scene, box, turn));
  const see = async (context: Context) => {
    const { box, turn } = gazeOf(context);
    const { scene } = context.task as Look;
    return { content: '', images: [await context.image(shown(scene, box, turn))] };
  };
  const tools: Tool[] = [
    tool({
      name: 'zoom',
      description: 'box',
      input: z.object({ box: z.int().min(1).max(9) }),
      run: ({ box }, context) => {
        Object.assign(gazeOf(context), { box, turn: 0 });
        return see(context);
      },
    }),
    tool({
      name: 'rotate',
      description: 'angle',
      input: z.object({ angle: z.union([z.literal(90), z.literal(180), z.literal(270)]) }),
      run: ({ angle }, context) => {
        const gaze = gazeOf(context);
        gaze.turn = ((gaze.turn + angle) % 360) as Turn;
        return see(context);
      },
    }),
  ];
  return toolLoop<Look>({
    name: 'looker',
    prompt: async ({ scene, box, question }, { image }) => [
      {
        role: 'user',
        content: [
          { type: 'image', image: await image(shown(scene, box, 0)) },
          { type: 'text', text: question },
        ],
      },
    ],
    tools: hasTools ? tools : [],
  });
}

/** 1 for the right digit, else 0; where the model looked does not matter. */
export const correct: TrajectoryReward<Look> = reward<Look>('correct', ({ task, trajectory }) =>
  /The answer is (\w+)\.\s*$/.exec(trajectory.text)?.[1] === task.answer ? 1 : 0,
);

/** A look, a zoom, a turn and the answer are three replies and about 130 tokens. */
export const LIMITS: Partial<Limits> = {
  turns: 4,
  tokensPerReply: 28,
  tokensPerTrajectory: 112,
  contextTokens: 256,
  callsPerTurn: 1,
  tokensPerToolResult: 32,
};

export const askFor = (scene: Scene, asked: number): Look => ({
  scene,
  box: 'whole',
  question: `Which digit is on ${scene.cards[asked]!.colour}?`,
  answer: String(scene.cards[asked]!.digit),
});
