import type { CallPart } from '../../chat/format.ts';
import type { ReplyPart } from '../../chat/reply-parts.ts';
import type { ServeRequest } from '../serve-request.ts';
import { CallFilter } from './call-filter.ts';

/** A chat numbers its own calls; frameworks take ids for unique among all the messages they hold. */
export const outsideId = (turn: number, id: string): string => `${id}_turn_${turn}`;

/** Parts of replies as a framework gets them: with its ids, and without the calls that are answered here. */
export class OutsideParts {
  readonly #request: ServeRequest;
  readonly #onDelta: (part: ReplyPart) => void;
  readonly #places = new Map<string, number>();
  /** Pieces of calls that are told when they are complete. */
  readonly #held = new Map<string, string>();
  /** By turn: which calls of a reply go on. */
  readonly #filters = new Map<number, CallFilter>();
  /** Ids of calls that were told, and then turned out to be unreadable. */
  readonly broken: string[] = [];

  constructor(request: ServeRequest, onDelta: (part: ReplyPart) => void) {
    this.#request = request;
    this.#onDelta = onDelta;
  }

  push(part: ReplyPart): void {
    const { turn } = part;
    const filter = this.#filters.get(turn) ?? new CallFilter(this.#request);
    this.#filters.set(turn, filter);
    const toolCalls = part.toolCalls
      .filter(({ id, name }) => filter.refusal(id, name) === undefined)
      .flatMap((call) => this.#call({ ...call, id: outsideId(turn, call.id) }));
    for (const { id, isBroken } of part.toolCalls) if (isBroken) filter.forget(id);
    this.#onDelta({ ...part, toolCalls });
  }

  #call(call: CallPart): CallPart[] {
    const { id, isFirst, isLast, isBroken } = call;
    if (this.#request.tellsWholeCalls) {
      const told = (this.#held.get(id) ?? '') + call.arguments;
      this.#held.set(id, told);
      if (!isLast || isBroken) return [];
      return [{ ...call, isFirst: true, arguments: told, index: this.#placeOf(id) }];
    }
    if (isBroken && !isFirst) this.broken.push(id);
    return [{ ...call, index: this.#placeOf(id) }];
  }

  #placeOf(id: string): number {
    const place = this.#places.get(id) ?? this.#places.size;
    this.#places.set(id, place);
    return place;
  }
}
