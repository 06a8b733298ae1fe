/** `rollcall/chat`: tokenizers, chat formats and tool-call formats. */

export { BYTE_CHARACTERS } from '../chat/byte-level.ts';
export type { ChatFormatOptions } from '../chat/chat-format.ts';
export type { Reply } from '../chat/format.ts';
export { type FoundCalls, toolFormat } from '../chat/formats/custom.ts';
export type { ToolFormat } from '../chat/formats/grammar.ts';
export { loadModelFiles, type ModelFiles } from '../chat/model-files.ts';
export { type SelfTestReport, selfTest } from '../chat/self-test.ts';
export type { Tokenizer } from '../chat/tokenizer.ts';
