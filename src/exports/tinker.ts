/** `rollcall/tinker`: training that is rented by API. */
export { type TinkerFactory, type TinkerOptions, tinker } from '../tinker/tinker.ts';
