// The whole life of two agents, for any client that can list and call tools. Given
// `connect() -> {list(), call(name, arguments), close()}`, where `call` returns the MCP result.
import assert from 'node:assert/strict';

const PNG =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const EVENTS_MAX = 20;

class Agent {
  constructor(client) {
    this.client = client;
    this.nextWait = 0;
  }

  // A success as an object; a refusal fails the scenario.
  async ok(tool, args) {
    const result = await this.client.call(tool, args);
    assert.notEqual(result.isError, true, `${tool}: ${JSON.stringify(result.content)}`);
    const text = result.content.findLast((block) => block.type === 'text').text;
    if (!('data' in JSON.parse(text))) assert.deepEqual(JSON.parse(text), result.structuredContent);
    this.content = result.content;
    return result.structuredContent;
  }

  async refused(tool, args) {
    const result = await this.client.call(tool, args);
    assert.equal(result.isError, true, `${tool}: ${JSON.stringify(result.structuredContent)}`);
    return JSON.parse(result.content[0].text).error;
  }

  enter(joined) {
    this.id = joined.participant.id;
    this.participantHandle = joined.participantHandle;
    this.cursor = joined.cursor;
  }

  with(args) {
    return { participantHandle: this.participantHandle, ...args };
  }

  do(tool, args = {}) {
    return this.ok(tool, this.with(args));
  }

  // One wait, not earlier than the server has asked for.
  async wait() {
    const pause = this.nextWait - Date.now();
    if (pause > 0) await new Promise((wake) => setTimeout(wake, pause));
    const answer = await this.do('wait_for_events', { cursor: this.cursor, timeoutSeconds: 0 });
    assert.equal(typeof answer.retryAfterMs, 'number');
    this.nextWait = Date.now() + answer.retryAfterMs;
    this.cursor = answer.cursor;
    return answer.events;
  }

  // The next event; there must be exactly one.
  async next() {
    for (let tries = 0; tries < EVENTS_MAX; tries += 1) {
      const events = await this.wait();
      if (events.length > 0) {
        assert.equal(events.length, 1, JSON.stringify(events));
        return events[0];
      }
    }
    return assert.fail('no event came');
  }
}

export async function play(connect) {
  const ana = new Agent(await connect());
  const bo = new Agent(await connect());

  const tools = await ana.client.list();
  assert.equal(tools.length, 20);
  for (const tool of tools) assert.ok(tool.inputSchema && tool.outputSchema, tool.name);

  const created = await ana.ok('create_room', { name: 'Ana' });
  ana.enter(created);
  const { roomId } = created.invite;
  bo.enter(await bo.ok('join_room', { roomId, name: 'Bo', capabilities: ['text.review'] }));

  await ana.do('send_text', { text: 'hello Bo', targetParticipantIds: [bo.id] });
  let event = await bo.next();
  assert.deepEqual([event.text, event.addressed], ['hello Bo', true]);
  await bo.do('send_text', { text: 'hello Ana' });
  event = await ana.next();
  assert.deepEqual([event.text, event.addressed], ['hello Ana', false]);

  const requestId = 'plan-0001';
  await ana.do('send_collab_request', { requestId, targetParticipantId: bo.id, summary: 'Draft' });
  event = await bo.next();
  assert.deepEqual([event.collab.kind, event.scopeId], ['request', `task:${requestId}`]);
  await bo.do('send_collab_response', { requestId, decision: 'accepted' });
  assert.equal((await ana.next()).collab.kind, 'accepted');
  const done = { requestId, status: 'completed', summary: 'Drafted' };
  const { sequence } = await bo.do('send_collab_result', done);
  assert.equal((await ana.next()).collab.kind, 'completed');
  const again = await bo.do('send_collab_result', done);
  assert.deepEqual([again.sequence, again.duplicate], [sequence, true]);

  const table = 'name,votes\nälter,3\n';
  const dataBase64 = Buffer.from(table).toString('base64');
  await ana.do('send_attachment', { fileName: 'table.csv', mimeType: 'text/csv', dataBase64 });
  let attachmentId = (await bo.next()).attachment.id;
  assert.equal((await bo.do('read_attachment', { attachmentId })).text, table);
  await bo.do('send_attachment', { fileName: 'dot.png', mimeType: 'image/png', dataBase64: PNG });
  attachmentId = (await ana.next()).attachment.id;
  await ana.do('read_attachment', { attachmentId });
  const image = ana.content.find((block) => block.type === 'image');
  assert.deepEqual([image.mimeType, image.data], ['image/png', PNG]);

  assert.deepEqual(await ana.wait(), []);
  const { events } = await bo.do('read_room_context', { limit: 50 });
  assert.deepEqual(events.map((e) => e.sequence), [1, 2, 3, 4, 5, 6, 7]);

  assert.equal((await bo.do('leave_room')).ok, true);
  assert.equal(await bo.refused('leave_room', bo.with({})), 'already_left');
  const late = bo.with({ text: 'too late' });
  assert.equal(await bo.refused('send_text', late), 'invalid_participant_handle');
  const info = await ana.ok('room_info', { roomId });
  assert.deepEqual(info.participants.map((p) => p.name), ['Ana']);
  assert.equal((await ana.do('leave_room')).ok, true);
  await ana.client.close();
  await bo.client.close();
}
