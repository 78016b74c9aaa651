// A front Worker that refuses a poll: JSON-RPC parsed, one token bucket per caller in the isolate.
const buckets = new Map();

function limited(key) {
  const now = Date.now();
  let bucket = buckets.get(key);
  if (!bucket) buckets.set(key, (bucket = { tokens: 1, at: now }));
  bucket.tokens = Math.min(1, bucket.tokens + (now - bucket.at) / 3_600_000);
  bucket.at = now;
  if (bucket.tokens < 1) return true;
  bucket.tokens -= 1;
  return false;
}

function reply(id, text, isError) {
  const result = { content: [{ type: "text", text }], isError };
  const headers = { "content-type": "application/json" };
  return new Response(JSON.stringify({ jsonrpc: "2.0", id, result }), { headers });
}

export default {
  async fetch(request) {
    const call = await request.json();
    if (call.jsonrpc !== "2.0" || call.method !== "tools/call") return reply(null, "{}", true);
    const refused = limited(call.params.arguments.participantHandle);
    const text = refused ? '{"error":"wait_rate_limited","retryAfterMs":1000}' : "{}";
    return reply(call.id, text, refused);
  },
};
