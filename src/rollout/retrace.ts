/**
 * A recorded trajectory done again up to a turn. The agent itself runs, with its tools. Where it asks the model it gets the
 * recorded reply, token by token, and what it tells the model is what it told it then, with the edits. From the turn on the
 * server samples. So every kind of agent can be continued: tool loops, frameworks, agents with sub-agents.
 */
import type { ChatFormat } from '../chat/format.ts';
import { ConfigError } from '../errors.ts';
import type { GenerateRequest, GenerateResult, InferenceServer, VersionSpan } from '../inference/server.ts';
import { messagesBefore } from '../lib/messages-before.ts';
import type { Message, Trajectory, Turn } from '../types.ts';

/** What is known of a reply that is given again. */
export interface RecordedTokens {
  readonly ids: Int32Array;
  readonly rolloutLogprobs: Float32Array;
  readonly versions: Int32Array;
}

export interface RecordedTrajectory {
  readonly trajectory: Pick<Trajectory<unknown>, 'messages' | 'chats' | 'turns'>;
  readonly segments: readonly RecordedTokens[];
}

/** By message number: its new text. */
export type Edits = Readonly<Record<number, string>>;

/** What an attempt needs to do a recorded trajectory again up to the turn. */
export interface Retrace {
  /** The server, behind one that gives the recorded replies. One for each attempt. */
  serverFor(server: Pick<InferenceServer, 'generate' | 'ended'>): Pick<InferenceServer, 'generate' | 'ended'>;
  /** What the agent said then, in place of what it says now. */
  revise(message: Message, chat: number, at: number): Message;
}

/** Refuses a turn or an edit that the trajectory does not have. */
export function retraceUpTo(
  recorded: RecordedTrajectory,
  { turn, edits, format }: { readonly turn: number; readonly edits: Edits; readonly format: ChatFormat },
): Retrace {
  const { messages, chats, turns } = recorded.trajectory;
  if (!Number.isInteger(turn) || turn < 1 || turn > turns.length) {
    throw new ConfigError(`there is no turn ${turn} in this trajectory; it has turns 1 to ${turns.length}`);
  }
  const said = new Set(messagesBefore(recorded.trajectory, turn));
  const beyond = Object.keys(edits).find((at) => !said.has(Number(at)));
  if (beyond !== undefined) {
    throw new ConfigError(
      `message ${beyond} does not lie before turn ${turn}; these can be edited: ${[...said].join(', ')}`,
    );
  }
  const replies = turns.slice(0, turn - 1).map((one) => replyOf(one, recorded, edits, format));
  const isEdited = Object.keys(edits).length > 0;
  return {
    revise: (message, chatNumber, at) => {
      const place = (chats.find(({ number }) => number === chatNumber)?.start ?? 0) + at;
      if (!said.has(place)) return message;
      const then = messages[place]!;
      if (then.role !== message.role) {
        throw new ConfigError(
          `the agent does not do again what it did: message ${place} was ${then.role}'s and is ${message.role}'s now; its code, its tools or the task have changed`,
        );
      }
      return { ...message, content: edits[place] ?? then.content } as Message;
    },
    serverFor: (server) => {
      const left = new Set(replies);
      const generate = async (request: GenerateRequest): Promise<GenerateResult> => {
        const number = request.place?.turn ?? turn;
        if (left.size === 0 || number >= turn) return server.generate(request);
        // Sub-agents that run at once may ask in another order. An edited prompt is known by its turn alone.
        const reply =
          [...left].find(({ prompt }) => sameIds(prompt, request.prompt)) ??
          (isEdited && left.has(replies[number - 1]!) ? replies[number - 1] : undefined);
        if (!reply) {
          throw new ConfigError(
            `the agent does not do again what it did: its prompt of turn ${number} is another; its code, its tools, the task or the chat template have changed`,
          );
        }
        left.delete(reply);
        return { ...reply.result, promptTokens: request.prompt.length };
      };
      return { generate, ...(server.ended && { ended: (id: string) => server.ended!(id) }) };
    },
  };
}

interface RecordedReply {
  readonly prompt: Int32Array;
  readonly result: Omit<GenerateResult, 'promptTokens'>;
}

function replyOf(
  { segment, start, end, finish, message }: Turn,
  { trajectory, segments }: RecordedTrajectory,
  edits: Edits,
  format: ChatFormat,
): RecordedReply {
  const { ids, rolloutLogprobs, versions } = segments[segment]!;
  const prompt = ids.subarray(0, start);
  const sampled = ids.subarray(start, end);
  const text = message === undefined ? undefined : edits[message];
  const said = text === undefined ? '' : String(trajectory.messages[message!]!.content);
  const given = text === undefined ? sampled : withText(sampled, said, text, format);
  return {
    prompt,
    result: {
      ids: given,
      logprobs: text === undefined ? rolloutLogprobs.slice(start, end) : new Float32Array(given.length),
      // A partial reply would be continued.
      finish: finish === 'abort' ? 'stop' : finish,
      versions:
        text === undefined
          ? spansOf(versions.subarray(start, end))
          : [{ from: 0, version: versions[start] ?? 0 }],
    },
  };
}

/** A reply with the words of its text exchanged; calls, reasoning and special tokens around them stay. */
function withText(ids: Int32Array, said: string, text: string, format: ChatFormat): Int32Array {
  const whole = format.decode(ids);
  const at = said.trim() === '' ? -1 : whole.indexOf(said.trim());
  if (at < 0) {
    throw new ConfigError('this reply has no text of its own to edit; edit the message that answers it');
  }
  const lengths = Array.from(
    { length: ids.length + 1 },
    (_, end) => format.decode(ids.subarray(0, end)).length,
  );
  const stop = at + said.trim().length;
  const from = lengths.findLastIndex((length) => length <= at);
  const to = lengths.findIndex((length) => length >= stop);
  const changed = whole.slice(lengths[from]!, at) + text + whole.slice(stop, lengths[to]!);
  return Int32Array.from([...ids.subarray(0, from), ...format.encodeText(changed), ...ids.subarray(to)]);
}

function spansOf(versions: Int32Array): VersionSpan[] {
  const spans: VersionSpan[] = [];
  versions.forEach((version, from) => {
    if (spans.at(-1)?.version !== version) spans.push({ from, version });
  });
  return spans;
}

const sameIds = (one: Int32Array, other: Int32Array) =>
  one.length === other.length && one.every((id, at) => id === other[at]);
