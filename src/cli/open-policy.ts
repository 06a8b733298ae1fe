import { embedded } from '../engine/embedded.ts';
import { gateway } from '../gateway/gateway.ts';
import { limitsWithin, type ResolvedOptions } from '../options.ts';
import { openChatFormat } from '../run/chat-format.ts';
import { temporaryImages } from '../services/image-blobs.ts';

/**
 * A model ready to answer, in the format and within the limits of its run: what `preview`, `eval` and `fork` sample
 * from. Close its `server`.
 */
export async function openPolicy<T>(
  model: string,
  {
    trustPrompt,
    chat,
    agent,
    limits,
    servers = embedded().servers,
  }: Pick<ResolvedOptions<T>, 'trustPrompt' | 'chat' | 'agent' | 'limits' | 'servers'>,
  images = temporaryImages(),
) {
  const tools = agent.tools.length > 0;
  const { directory, format } = await openChatFormat(model, { trustPrompt, chat, tools });
  const server = gateway(await servers.open(directory, { readImage: images.read }));
  try {
    const { contextTokens } = await server.info();
    return { directory, format, server, images, limits: limitsWithin(limits, contextTokens) };
  } catch (error) {
    await server.close();
    throw error;
  }
}
