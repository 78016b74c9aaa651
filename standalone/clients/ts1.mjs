// node ts1.mjs URL: @modelcontextprotocol/sdk 1.32, legacy era.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { play } from './scenario.mjs';

const [url] = process.argv.slice(2);
let version;

await play(async () => {
  const client = new Client({ name: 'scenario-ts1', version: '1' });
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  version = transport.protocolVersion;
  return {
    list: async () => (await client.listTools()).tools,
    call: (name, args) => client.callTool({ name, arguments: args }),
    close: () => client.close(),
  };
});
console.log(`whole scenario, protocol ${version}`);
process.exit(0);
