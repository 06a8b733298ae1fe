import { ConfigError } from '../errors.ts';

/** What the caller asked cannot be done; answered with 400 and the message. */
export class BadRequest extends ConfigError {}
