import type { SimulatedTrajectory } from '../../testing/index.ts';

/** For trajectories that go turn by turn together: before each turn, and after each reply, they wait for the slowest. */
export function barriers(plans: readonly SimulatedTrajectory[]) {
  const most = Math.max(...plans.map(({ turns }) => turns.length));
  const meeting = () =>
    Array.from({ length: most }, (_, at) => barrier(plans.filter(({ turns }) => turns.length > at).length));
  const [begun, replied] = [meeting(), meeting()];
  return {
    beforeTurn: (turn: number) => begun[turn - 1]!(),
    afterReply: (turn: number) => replied[turn - 1]!(),
  };
}

/** Resolves for all when the last of `count` has come. */
function barrier(count: number): () => Promise<void> {
  let open = () => {};
  let missing = count;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return () => {
    if (--missing === 0) open();
    return opened;
  };
}
