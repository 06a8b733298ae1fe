import type { Problem } from '../../types.ts';
import { unknownToolMessage } from '../run-tool.ts';
import type { ServeRequest } from '../serve-request.ts';

/** Which calls of one reply a framework gets. The others are answered here, so that the model knows why they were not run. */
export class CallFilter {
  readonly #request: ServeRequest;
  readonly #offered: readonly string[];
  /** The only call that is passed on, once there is one, where one is all that is wanted. */
  #first: string | undefined;

  constructor(request: ServeRequest) {
    this.#request = request;
    this.#offered = request.toolSchemas.map((schema) => schema.function.name);
  }

  /** Why a call is not passed on; undefined if it is. To be asked in the order of the calls, as often as one likes. */
  refusal(id: string, name: string): Problem | undefined {
    const { answersUnknown = false, neededCall, onlyOneCall = false } = this.#request;
    const isOffered = this.#offered.includes(name);
    if (answersUnknown && !isOffered) {
      return { kind: 'unknown-tool', message: unknownToolMessage(name, this.#offered), source: name };
    }
    if (typeof neededCall === 'string' && isOffered && name !== neededCall) {
      const message = `Not run: '${neededCall}' must be called now.`;
      return { kind: 'unknown-tool', message, source: name };
    }
    this.#first ??= id;
    if (onlyOneCall && id !== this.#first) {
      return { kind: 'too-many-calls', message: 'Not run: make one call at a time.', source: name };
    }
    return undefined;
  }

  /** A call that was passed on turned out to be none. */
  forget(id: string): void {
    if (this.#first === id) this.#first = undefined;
  }
}
