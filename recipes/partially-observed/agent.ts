import { agent, type Task } from 'rollcall';

/** A row: where the key lies and which rooms there are. The model sees only the room that it is in. */
type Hunt = Task & { extraInfo: { rooms: string[]; key: string } };

/**
 * A search in the dark: "go ROOM" shows what is in a room and nothing else; "take" ends the hunt. The reward comes at the
 * end and is smaller the longer it took, so the model has to remember where it has been.
 */
export const keyHunt = agent<Hunt>(async (context) => {
  const { rooms, key } = context.task.extraInfo;
  const chat = context.model.chat({
    system: `You look for a key in the dark. Rooms: ${rooms.join(', ')}. Write "go ROOM" to enter one, "take" to take the key.`,
  });
  chat.user('You are in the hall. It is empty.');
  let room = 'hall';
  for (let moves = 1; ; moves++) {
    const { content } = await chat.sample();
    const target = rooms.find((name) => content.includes(`go ${name}`));
    if (content.includes('take')) return context.reward(room === key ? 1 / moves : 0);
    room = target ?? room;
    chat.user(
      target === key ? `You are in the ${room}. A key glints.` : `You are in the ${room}. It is empty.`,
    );
    if (moves >= context.limits.turns) return context.reward(0);
  }
});
