import type { Trajectory } from 'rollcall';
import { hashSeed } from 'rollcall/datasets';
import { createDemonstration, createDrill } from './demonstrations.ts';
import { type LookSetup, play } from './look.ts';
import type { Look } from './looker.ts';
import { COLOURS } from './scene.ts';

/** Share that a model does rightly, by what is done. */
export type Skills = Readonly<Record<string, number>>;

/** Nothing else uses what is made from this seed. */
const heldOut = (seed: number) => hashSeed(seed, 'held out');
/** As GRPO samples. */
const SAMPLED = { temperature: 1 };

/** By question of the drills, which for places names the colour. */
export async function drillSkills(setup: LookSetup, model: string): Promise<Skills> {
  const drills = Array.from({ length: setup.recipe.looks.skills }, (_, index) =>
    createDrill(heldOut(setup.seed), index),
  );
  const attempts = await play(
    setup,
    model,
    drills.map(({ task }) => task),
    SAMPLED,
  );
  return shares(
    attempts.map(({ trajectory, reward }) => {
      const { question, answer } = trajectory.task;
      const isRight = question.startsWith('Where')
        ? String(firstLook(trajectory)?.box) === answer
        : reward === 1;
      return [question, isRight];
    }),
  );
}

/** At questions as GRPO asks them. */
export async function lookSkills(setup: LookSetup, model: string): Promise<Skills> {
  const looks = Array.from(
    { length: setup.recipe.looks.skills },
    (_, index) => createDemonstration(heldOut(setup.seed), index).task,
  );
  const attempts = await play(setup, model, looks, SAMPLED);
  return placesOf(attempts.map(({ trajectory }) => trajectory));
}

/**
 * By colour of the card that a trajectory says it looks at, whatever was asked: how often it looks where that card lies. A
 * colour at which none looks counts 0: there GRPO would have nothing to choose from.
 */
export function placesOf(trajectories: readonly Pick<Trajectory<Look>, 'task' | 'messages'>[]): Skills {
  const none = Object.fromEntries(Object.keys(COLOURS).map((colour) => [colour, 0]));
  const outcomes = trajectories.flatMap((trajectory) => {
    const look = firstLook(trajectory);
    const card = trajectory.task.scene.cards.find(({ colour }) => colour === look?.colour);
    return card ? [[card.colour, look?.box === card.box] as const] : [];
  });
  return { ...none, ...shares(outcomes) };
}

/** What a trajectory says it looks at first, and the box on which it zooms. */
function firstLook({
  messages,
}: Pick<Trajectory<Look>, 'messages'>): { readonly colour: string; readonly box: unknown } | undefined {
  const reply = messages.find(({ role }) => role === 'assistant');
  if (reply?.role !== 'assistant') return undefined;
  const colour = /Look at (\w+) /.exec(reply.content)?.[1];
  const call = reply.toolCalls?.[0];
  return colour ? { colour, box: call?.name === 'zoom' ? call.arguments['box'] : undefined } : undefined;
}

function shares(outcomes: readonly (readonly [string, boolean])[]): Skills {
  const names = new Set(outcomes.map(([name]) => name));
  return Object.fromEntries(
    [...names].map((name) => {
      const rights = outcomes.filter(([other]) => other === name).map(([, isRight]) => isRight);
      return [name, rights.filter(Boolean).length / rights.length];
    }),
  );
}
