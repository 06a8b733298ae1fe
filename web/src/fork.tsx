import { useState } from 'react';
import { messagesBefore } from '../../src/lib/messages-before.ts';
import type { ForkResult } from '../../src/watch/dashboard/api.ts';
import type { StoredTrajectory } from '../../src/watch/trajectory-store.ts';
import { api, post } from './data.ts';
import { go, href } from './route.ts';

interface ForkProps {
  readonly run: string;
  readonly step: number;
  readonly position: number;
  readonly turn: number;
  readonly trajectory: StoredTrajectory;
  readonly onClose: () => void;
}

/** Continues the trajectory from a turn: change what was said before it, choose how often, see what comes of it. */
export function ForkForm({ run, step, position, turn, trajectory, onClose }: ForkProps) {
  const before = messagesBefore(trajectory, turn);
  const last = lastOf(trajectory, turn, before);
  const [message, setMessage] = useState(last);
  const [state, setState] = useState<{ busy?: boolean; error?: string }>({});
  const textAt = (at: number) => {
    const content = trajectory.messages[at]?.content;
    return typeof content === 'string' ? content : '';
  };
  const [text, setText] = useState(textAt(last));
  const [attempts, setAttempts] = useState(4);
  const start = async () => {
    setState({ busy: true });
    try {
      const edits = text === textAt(message) ? {} : { [message]: text };
      const result = await post<ForkResult>(api.fork(run), { step, position, turn, attempts, edits });
      go(
        href('compare', {
          left: `${run}:${step}:${position}`,
          right: `${result.run}:${result.step}:0`,
          task: trajectory.taskIndex,
        }),
      );
    } catch (error) {
      setState({ error: (error as Error).message });
    }
  };
  return (
    <form
      className="card fork"
      aria-label={`Fork at turn ${turn}`}
      onSubmit={(event) => {
        event.preventDefault();
        start();
      }}
    >
      <b>Continue from turn {turn}</b>
      <label className="inline">
        Message
        <select
          value={message}
          onChange={(event) => {
            setMessage(Number(event.target.value));
            setText(textAt(Number(event.target.value)));
          }}
        >
          {before.map((at) => (
            <option key={at} value={at}>
              #{at} {trajectory.messages[at]!.role}
            </option>
          ))}
        </select>
      </label>
      <textarea
        aria-label="Its text"
        rows={3}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      <label className="inline">
        Attempts
        <input
          type="number"
          min="1"
          max="64"
          value={attempts}
          onChange={(event) => setAttempts(Number(event.target.value))}
        />
      </label>
      <span className="row">
        <button type="submit" className="main" disabled={state.busy}>
          {state.busy ? 'Continuing…' : 'Continue'}
        </button>
        <button type="button" onClick={onClose}>
          Close
        </button>
      </span>
      {state.error && (
        <p className="error" role="alert">
          {state.error}
        </p>
      )}
    </form>
  );
}

/** What the model read last before it replied in this turn. */
function lastOf({ turns }: StoredTrajectory, turn: number, before: readonly number[]): number {
  const reply = turns[turn - 1]?.message;
  return reply !== undefined && before.includes(reply - 1) ? reply - 1 : (before.at(-1) ?? 0);
}
