// A front Worker before one object per room: a message is stored before it is answered, a wait is
// held until there is one.
import { DurableObject } from "cloudflare:workers";

const KEPT = 100;
const headers = { "content-type": "application/json" };

function answer(id, value) {
  const content = [{ type: "text", text: JSON.stringify(value) }];
  return new Response(JSON.stringify({ jsonrpc: "2.0", id, result: { content, isError: false } }), { headers });
}

export default {
  async fetch(request, env) {
    const call = await request.json();
    const { name, arguments: given } = call.params;
    const room = env.rooms.get(env.rooms.idFromName(given.room));
    if (name === "send_text") return answer(call.id, { sequence: await room.say(given.text) });
    return answer(call.id, await room.after(given.cursor, given.timeoutSeconds * 1000));
  },
};

export class Room extends DurableObject {
  constructor(state, env) {
    super(state, env);
    this.messages = [];
    this.waiting = [];
    state.blockConcurrencyWhile(async () => {
      this.sequence = (await state.storage.get("sequence")) ?? 0;
    });
  }

  // The answer leaves the object only when what it has put is stored.
  say(text) {
    this.sequence += 1;
    const message = { sequence: this.sequence, text };
    this.ctx.storage.put({ sequence: this.sequence, [`message-${this.sequence % KEPT}`]: message });
    this.messages.push(message);
    if (this.messages.length > KEPT) this.messages.shift();
    for (const wake of this.waiting.splice(0)) wake();
    return this.sequence;
  }

  async after(cursor, ms) {
    if (this.sequence <= cursor && ms > 0) {
      await new Promise((done) => {
        const timer = setTimeout(done, ms);
        this.waiting.push(() => (clearTimeout(timer), done()));
      });
    }
    const events = this.messages.filter((message) => message.sequence > cursor);
    return { cursor: this.sequence, events };
  }
}
