/** `rollcall/services`: what tools and rewards may ask: a chat service, a sandbox, symbolic maths, stored images. */

export { decodeImage } from '../lib/images/decode.ts';
export type { Pixels } from '../lib/images/pixels.ts';
export { encodePng } from '../lib/images/png.ts';
export { type ImageProcessor, readImageProcessor } from '../lib/images/processor.ts';
export { resize } from '../lib/images/resize.ts';
export { keepSecret } from '../lib/secrets.ts';
export { type ChatService, type ChatServiceOptions, chatService } from '../services/chat-service.ts';
export {
  type ImageBlobs,
  type ImageBlobsOptions,
  type ImageSource,
  imageBlobs,
  memoryImages,
} from '../services/image-blobs.ts';
export { type RequestLimiter, type RequestLimits, requestLimiter } from '../services/rate-limit.ts';
export { openSandbox } from '../services/sandbox/open-sandbox.ts';
export type {
  Boundary,
  Sandbox,
  SandboxLimits,
  SandboxOptions,
  SandboxResult,
  SandboxSession,
} from '../services/sandbox/sandbox.ts';
export {
  openSymbolicMaths,
  type SymbolicMaths,
  type SymbolicOptions,
} from '../services/symbolic/symbolic.ts';
