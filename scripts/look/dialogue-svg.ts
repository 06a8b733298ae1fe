import type { Trajectory } from 'rollcall';
import { encodePng } from 'rollcall/services';
import { type Box, view } from '../../examples/look/draw.ts';
import type { Look } from '../../examples/look/looker.ts';
import type { Turn } from '../../examples/look/scene.ts';

const SIDE = 150;
const STEP = SIDE + 70;

/** A dialogue as a row of what was seen, enlarged, each with what the model said to it. */
export function dialogueSvg(look: Look, { messages }: Pick<Trajectory<Look>, 'messages'>): string {
  let [box, turn]: [Box, Turn] = [look.box, 0];
  const replies = messages.filter(({ role }) => role === 'assistant');
  const panels = replies.map((message, index) => {
    const [call] = (message.role === 'assistant' && message.toolCalls) || [];
    const said = [
      ...(index === 0 ? [`asked: ${look.question}`] : []),
      ...(typeof message.content === 'string' && message.content !== '' ? [message.content] : []),
      ...(call ? [`${call.name}(${Object.values(call.arguments as object).join(', ')})`] : []),
    ];
    const png = Buffer.from(encodePng(view(look.scene, box, turn))).toString('base64');
    if (call?.name === 'zoom') [box, turn] = [(call.arguments as { box: number }).box, 0];
    if (call?.name === 'rotate') turn = ((turn + (call.arguments as { angle: number }).angle) % 360) as Turn;
    const x = 20 + index * STEP;
    return [
      `<image x="${x}" y="20" width="${SIDE}" height="${SIDE}" style="image-rendering:pixelated" href="data:image/png;base64,${png}"/>`,
      ...said.map((line, at) => `<text x="${x}" y="${SIDE + 42 + 18 * at}">${line}</text>`),
    ].join('');
  });
  const [width, height] = [20 + panels.length * STEP + 20, SIDE + 100];
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="sans-serif" font-size="13">` +
    `<rect width="${width}" height="${height}" fill="#fff"/>${panels.join('')}</svg>\n`
  );
}
