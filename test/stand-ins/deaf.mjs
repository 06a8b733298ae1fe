/**
 * Stands before a server and swallows its weight updates, while it claims in every reply to have taken them: as a server
 * whose updates never arrive looks from outside. `node deaf.mjs http://127.0.0.1:30000`
 */
import { createServer } from 'node:http';

const behind = process.argv[2];
let claimed = '0';

const server = createServer(async (request, response) => {
  let text = '';
  for await (const chunk of request) text += chunk;
  response.setHeader('content-type', 'application/json');
  if (request.url === '/update_weights_from_disk') {
    claimed = JSON.parse(text).weight_version;
    return void response.end(JSON.stringify({ success: true, message: 'loaded' }));
  }
  const reply = await fetch(behind + request.url, {
    method: request.method,
    ...(text === '' ? {} : { body: text }),
  });
  const said = await reply.text();
  response.statusCode = reply.status;
  if (request.url !== '/generate' || reply.status !== 200) return void response.end(said);
  const { meta_info: meta, ...rest } = JSON.parse(said);
  const lie = {
    ...meta,
    weight_version: claimed,
    weight_versions: [{ version: claimed, start: 0, end: rest.output_ids.length }],
  };
  response.end(JSON.stringify({ ...rest, meta_info: lie }));
});
server.listen(0, '127.0.0.1', () => console.log(`listening ${server.address().port}`));
