import { useState } from 'react';
import type { TrajectoryView } from '../../src/watch/dashboard/api.ts';
import type { ViewProps } from './app.tsx';
import { Chat } from './chat.tsx';
import { api, useApi } from './data.ts';
import { ForkForm } from './fork.tsx';
import { useKeys } from './keys.ts';
import { short } from './numbers.ts';
import { change, href, useRoute } from './route.ts';
import { rewardColour, sign } from './step.tsx';
import { Notice, StepPicker, useSteps } from './step-picker.tsx';
import { COLOURINGS, type Colouring, TokenStrip } from './token-strip.tsx';

export function Trajectory({ run, canFork }: ViewProps) {
  const route = useRoute();
  const { steps, step } = useSteps(run.id, route.number('step'));
  const position = route.number('position') ?? 0;
  const { data, error } = useApi<TrajectoryView>(
    step === undefined ? undefined : api.trajectory(run.id, step, position),
  );
  const colouring = (COLOURINGS.find((name) => name === route.get('colour')) ?? 'role') as Colouring;
  const [turn, setTurn] = useState<number>();
  const [fork, setFork] = useState<number>();
  const move = (by: number) => {
    const next = position + by;
    if (data && next >= 0 && next < data.count) change({ position: next });
  };
  useKeys({
    j: () => move(1),
    k: () => move(-1),
    c: () => change({ colour: COLOURINGS[(COLOURINGS.indexOf(colouring) + 1) % COLOURINGS.length] }),
    Escape: () => setFork(undefined),
  });
  if (step === undefined) return <p className="quiet">No step has finished yet.</p>;
  const place = { run: run.id, step };
  return (
    <>
      <div className="bar">
        <StepPicker steps={steps} step={step} />
        <span className="row picker">
          <button
            type="button"
            onClick={() => move(-1)}
            disabled={position === 0}
            aria-label="Trajectory before"
            title="Trajectory before (k)"
          >
            ↑
          </button>
          <span>
            {position + 1} of {data?.count ?? '–'}
          </span>
          <button
            type="button"
            onClick={() => move(1)}
            disabled={!data || position + 1 >= data.count}
            aria-label="Trajectory after"
            title="Trajectory after (j)"
          >
            ↓
          </button>
        </span>
        <a href={href('step', place)}>all attempts</a>
        {data && (
          <a
            href={href('compare', {
              ...place,
              left: `${run.id}:${step}:${position}`,
              task: data.row.taskIndex,
            })}
          >
            compare
          </a>
        )}
      </div>
      {!data && <Notice error={error} what="the trajectory" />}
      {data && (
        <>
          <Facts view={data} />
          {fork !== undefined && (
            <ForkForm
              run={run.id}
              step={step}
              position={position}
              turn={fork}
              trajectory={data.trajectory}
              onClose={() => setFork(undefined)}
            />
          )}
          <div className="two">
            <section aria-label="Dialogue">
              <Chat
                run={run.id}
                trajectory={data.trajectory}
                current={turn}
                onFork={canFork ? setFork : undefined}
              />
            </section>
            <section className="card tokens-card" aria-label="Tokens">
              <div className="row">
                <b>Tokens</b>
                <fieldset className="segmented" aria-label="Colour tokens by">
                  {COLOURINGS.map((name) => (
                    <label key={name}>
                      <input
                        type="radio"
                        name="colour"
                        checked={name === colouring}
                        onChange={() => change({ colour: name })}
                      />
                      {name}
                    </label>
                  ))}
                </fieldset>
              </div>
              {data.withoutTexts && <p className="tag warn">No texts, only ids: {data.withoutTexts}</p>}
              {data.segments.map((segment, number) => (
                <div key={number}>
                  {data.segments.length > 1 && (
                    <p className="quiet">
                      Segment {number + 1} of {data.segments.length}
                      {agentOf(data.trajectory, number)}
                    </p>
                  )}
                  <TokenStrip
                    tokens={segment}
                    colouring={colouring}
                    label={`Tokens of segment ${number + 1}`}
                    onTurn={setTurn}
                  />
                </div>
              ))}
              <details>
                <summary>Task</summary>
                <pre className="json">{JSON.stringify(data.trajectory.task, null, 2)}</pre>
              </details>
              {Object.keys(data.trajectory.extra).length > 0 && (
                <details>
                  <summary>Extra</summary>
                  <pre className="json">{JSON.stringify(data.trajectory.extra, null, 2)}</pre>
                </details>
              )}
            </section>
          </div>
        </>
      )}
    </>
  );
}

export function Facts({ view: { row, trajectory } }: { readonly view: TrajectoryView }) {
  const rewards = Object.entries(trajectory.rewards);
  return (
    <p className="facts">
      <span>
        Task <b>{row.taskIndex}</b>, attempt <b>{row.attempt}</b>
      </span>
      <span>
        <i className="box" style={{ background: rewardColour(row.reward) }} aria-hidden="true" /> reward{' '}
        <b>{short(row.reward)}</b>
        {rewards.length > 1 && ` (${rewards.map(([name, value]) => `${name} ${short(value)}`).join(', ')})`}
      </span>
      <span>
        advantage <b className={sign(row.advantage)}>{short(row.advantage)}</b>
      </span>
      <span className={row.end === 'completed' ? '' : 'warn'}>
        {row.end}
        {row.message && `: ${row.message}`}
      </span>
      <span>
        <b>{row.turns}</b> turn{row.turns === 1 ? '' : 's'}
      </span>
      <span>
        <b>{row.tokens}</b> tokens, <b>{row.sampledTokens}</b> sampled
      </span>
    </p>
  );
}

/** The sub-agent whose tokens a segment has, in words. */
function agentOf({ turns, chats }: TrajectoryView['trajectory'], segment: number): string {
  const message = turns.find((turn) => turn.segment === segment)?.message;
  const chat = chats.find(({ start, end }) => message !== undefined && message >= start && message < end);
  return chat?.agent === undefined ? '' : `, agent ${chat.agent}`;
}
