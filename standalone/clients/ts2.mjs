// node ts2.mjs URL auto|legacy|2026-07-28: @modelcontextprotocol/client 2.4, either era.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { play } from './scenario.mjs';

const [url, mode = 'auto'] = process.argv.slice(2);
const versionNegotiation = { mode: mode.startsWith('20') ? { pin: mode } : mode };
let version;

await play(async () => {
  const client = new Client({ name: 'scenario-ts2', version: '1' }, { versionNegotiation });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  version = client.getNegotiatedProtocolVersion?.();
  return {
    list: async () => (await client.listTools()).tools,
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
});
console.log(`whole scenario, protocol ${version}`);
process.exit(0);
