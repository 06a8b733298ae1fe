/** `npm run docs:build` writes the site to site/dist; `npm run docs:dev` serves it and follows changes. */
import { watch } from 'node:fs';
import { build, createServer } from 'vitepress';
import { makeApiPages } from './api-pages.ts';
import { deadAnchors } from './dead-anchors.ts';
import { clearPages, makePages } from './make-pages.ts';

await clearPages();
await makePages();
await makeApiPages();
if (process.argv[2] === 'dev') {
  const server = await createServer('site', { host: '127.0.0.1' });
  await server.listen();
  server.printUrls();
  for (const folder of ['docs', 'recipes']) {
    watch(folder, { recursive: true }, () => {
      makePages().catch((error: Error) => console.error(error.message));
    });
  }
} else {
  await build('site');
  const dead = deadAnchors('site/dist');
  if (dead.length) throw new Error(`links to headings that do not exist:\n  ${dead.join('\n  ')}`);
}
