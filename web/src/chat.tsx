import { Fragment, memo } from 'react';
import type { Content, Message, ToolCall, Turn } from '../../src/types.ts';
import { problemsOf } from '../../src/watch/problems.ts';
import type { StoredTrajectory } from '../../src/watch/trajectory-store.ts';
import { api } from './data.ts';
import { milliseconds as inMilliseconds, short } from './numbers.ts';

interface ChatProps {
  readonly run: string;
  readonly trajectory: StoredTrajectory;
  /** Turn that is pointed at in the token strip. */
  readonly current?: number | undefined;
  readonly onFork?: ((turn: number) => void) | undefined;
}

/** A trajectory's messages as a chat; beside each reply what its turn did. */
export const Chat = memo(function Chat({ run, trajectory, current, onFork }: ChatProps) {
  const { messages, turns } = trajectory;
  const numbers = new Map(turns.map(({ message }, at) => [message, at + 1]));
  const heads = headsOf(trajectory);
  return (
    <ol className="chat" aria-label="Messages">
      {messages.map((message, at) => {
        const number = numbers.get(at);
        return (
          <Fragment key={at}>
            {heads[at] !== undefined && <li className="chat-head">{heads[at]}</li>}
            <li
              className={`message ${message.role}${number !== undefined && number === current ? ' current' : ''}`}
            >
              <div className="who">
                {message.role === 'tool' ? `tool · ${message.name}` : message.role}
                {number !== undefined && <span className="quiet"> turn {number}</span>}
                <span className="quiet number" title="number of the message, for rollcall fork --edit">
                  #{at}
                </span>
                {number !== undefined && onFork && (
                  <button type="button" className="plain" onClick={() => onFork(number)}>
                    fork here
                  </button>
                )}
              </div>
              <Body run={run} message={message} turn={number === undefined ? undefined : turns[number - 1]} />
              {number !== undefined && <TurnNotes turn={turns[number - 1]!} />}
            </li>
          </Fragment>
        );
      })}
    </ol>
  );
});

function Body({ run, message, turn }: { run: string; message: Message; turn: Turn | undefined }) {
  const calls = message.role === 'assistant' ? (message.toolCalls ?? []) : [];
  const unread = turn?.problems.map(({ source }) => source) ?? [];
  return (
    <div className="bubble">
      {message.role === 'assistant' && message.reasoning && (
        <details open>
          <summary>reasoning</summary>
          <p className="text">{message.reasoning}</p>
        </details>
      )}
      <ContentView run={run} content={message.content} />
      {calls.map((call) => (
        <CallView key={call.id} call={call} />
      ))}
      {unread.map((source, at) => (
        <pre key={at} className="call bad">
          {source}
        </pre>
      ))}
      {calls.length + unread.length === 0 && message.content === '' && <span className="quiet">(empty)</span>}
    </div>
  );
}

function ContentView({ run, content }: { readonly run: string; readonly content: Content }) {
  if (typeof content === 'string') return content === '' ? null : <p className="text">{content}</p>;
  return content.map((part, at) =>
    part.type === 'text' ? (
      <p key={at} className="text">
        {part.text}
      </p>
    ) : (
      <img
        key={at}
        src={api.blob(run, part.image.blob)}
        className="picture"
        alt={`Image, ${part.image.width} by ${part.image.height}, ${part.image.tokens} tokens`}
        width={part.image.width}
        height={part.image.height}
      />
    ),
  );
}

function CallView({ call }: { readonly call: ToolCall }) {
  return (
    <pre className="call">
      <b>{call.name}</b>(
      {Object.entries(call.arguments)
        .map(([name, value]) => `${name}: ${JSON.stringify(value)}`)
        .join(', ')}
      )
    </pre>
  );
}

function TurnNotes({ turn }: { readonly turn: Turn }) {
  const problems = problemsOf(turn);
  const rewards = [turn.reward, ...turn.toolRuns.map(({ reward }) => reward)].filter(
    (reward) => reward !== undefined,
  );
  return (
    <div className="notes">
      {turn.finish !== 'stop' && <span className="tag warn">{turn.finish}</span>}
      {rewards.length > 0 && <span className="tag">turn reward {rewards.map(short).join(', ')}</span>}
      {turn.toolRuns.map(({ call, milliseconds, cached }) => (
        <span key={call.id} className="quiet">
          {call.name} {inMilliseconds(milliseconds)}
          {cached ? ', cached' : ''}
        </span>
      ))}
      {problems.map((problem, at) => (
        <span key={at} className="tag bad" title={problem.source}>
          {problem.kind}: {problem.message}
        </span>
      ))}
    </div>
  );
}

/** Where another conversation of the trajectory begins, and where its context was rendered again as a new segment. */
function headsOf({ chats, turns, messages, agentRewards = {} }: StoredTrajectory): (string | undefined)[] {
  const heads: (string | undefined)[] = new Array(messages.length);
  for (const { number, start, end, tools, agent } of chats) {
    const own = turns.flatMap((turn, at) =>
      turn.message !== undefined && turn.message >= start && turn.message < end
        ? { ...turn, number: at + 1 }
        : [],
    );
    if (chats.length > 1) {
      const between = own.length === 0 ? 'no turn' : turnsOf(own.map((turn) => turn.number));
      const offered = tools.length === 0 ? 'no tools' : `tools ${tools.join(', ')}`;
      const worth =
        agent !== undefined && agent in agentRewards ? ` (reward ${short(agentRewards[agent]!)})` : '';
      const named = agent === undefined ? '' : ` · agent ${agent}${worth}`;
      heads[start] = `Conversation ${number + 1}${named} · ${between} · ${offered}`;
    }
    own.forEach(({ segment, message }, at) => {
      if (at > 0 && segment !== own[at - 1]!.segment)
        heads[message!] = `Segment ${segment + 1}: what was said so far was rendered again`;
    });
  }
  return heads;
}

const turnsOf = (numbers: readonly number[]) =>
  numbers.length === 1 ? `turn ${numbers[0]}` : `turns ${numbers.join(', ')}`;
