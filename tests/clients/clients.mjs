// clients.mjs SCB: the official MCP clients against `scb serve`, over stdio and HTTP; prints TAP.
//
// v1 (@modelcontextprotocol/sdk) speaks the legacy era; v2 (@modelcontextprotocol/client) is tried in
// each of its ways to begin: legacy, auto (asks a sibling process first) and pinned to 2026-07-28.
// Both validate what they get: message shapes, and structured content against our output schemas.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { broker, end, overHttp, server, step } from './place.mjs'

const httpV1 = async () => {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
  const { url, headers } = await overHttp()
  const client = new Client({ name: 'scb-clients', version: '1' }, { capabilities: {} })
  return { client, transport: new StreamableHTTPClientTransport(url, { requestInit: { headers } }), call: (p, o) => client.callTool(p, undefined, o) }
}

const httpV2 = mode => async () => {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  const { url, headers } = await overHttp()
  const client = new Client({ name: 'scb-clients', version: '1' }, { capabilities: {}, versionNegotiation: { mode } })
  return { client, transport: new StreamableHTTPClientTransport(url, { requestInit: { headers } }), call: (p, o) => client.callTool(p, o) }
}

async function v1 () {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { StdioClientTransport } = await import('@modelcontextprotocol/sdk/client/stdio.js')
  const client = new Client({ name: 'scb-clients', version: '1' }, { capabilities: {} })
  return { client, transport: new StdioClientTransport(server), call: (p, o) => client.callTool(p, undefined, o) }
}

const v2 = mode => async () => {
  const { Client } = await import('@modelcontextprotocol/client')
  const { StdioClientTransport } = await import('@modelcontextprotocol/client/stdio')
  const client = new Client({ name: 'scb-clients', version: '1' }, { capabilities: {}, versionNegotiation: { mode } })
  return { client, transport: new StdioClientTransport(server), call: (p, o) => client.callTool(p, o) }
}

const clients = {
  'sdk 1 (legacy)': [v1, '2025-11-25'],
  'client 2, legacy': [v2('legacy'), '2025-11-25'],
  'client 2, auto': [v2('auto'), '2026-07-28'],
  'client 2, pinned': [v2({ pin: '2026-07-28' }), '2026-07-28'],
  'sdk 1 (legacy), HTTP': [httpV1, '2025-11-25'],
  'client 2, legacy, HTTP': [httpV2('legacy'), '2025-11-25'],
  'client 2, auto, HTTP': [httpV2('auto'), '2026-07-28'],
  'client 2, pinned, HTTP': [httpV2({ pin: '2026-07-28' }), '2026-07-28']
}

async function talk (make, era, step) {
  const { client, transport, call: callTool } = await make()
  // As a model does: what a result names is passed on. Over HTTP nothing else says which session is meant.
  let session
  const call = async (p, o) => {
    const r = await callTool(session ? { ...p, arguments: { session, ...p.arguments } } : p, o)
    session ??= r.structuredContent?.session
    return r
  }
  const errors = []
  client.onerror = e => errors.push(e)
  let stderr = ''
  try {
    await step('connects', async () => {
      await client.connect(transport, { timeout: 10000 })
      transport.stderr?.on('data', d => { stderr += d })
      assert.equal(client.getServerVersion()?.name, 'scb')
      const got = client.getNegotiatedProtocolVersion?.()
      if (got) assert.equal(got, era)
    })
    await step('lists tools', async () => {
      const { tools } = await client.listTools()
      const names = tools.map(t => t.name)
      for (const name of ['run_code', 'run_command', 'job', 'files', 'present_output', 'session']) {
        assert.ok(names.includes(name), name)
      }
    })
    await step('runs code and keeps its state', async () => {
      await call({ name: 'run_code', arguments: { language: 'python', code: 'x = 41' } })
      const r = await call({ name: 'run_code', arguments: { language: 'python', code: 'x + 1' } })
      assert.equal(r.structuredContent.results[0].mime['text/plain'], '42')
    })
    await step('gets a tool error as a result', async () => {
      const r = await call({ name: 'run_command', arguments: { comand: 'x' } })
      assert.equal(r.isError, true)
      assert.match(r.content[0].text, /comand/)
    })
    await step('presents a file and reads it by URI', async () => {
      await call({ name: 'files', arguments: { action: 'write', path: 'a.txt', content: 'hello' } })
      const r = await call({ name: 'present_output', arguments: { path: 'a.txt' } })
      const { contents } = await client.readResource({ uri: r.structuredContent.uri })
      assert.equal(contents[0].text, 'hello')
      const { resources } = await client.listResources()
      assert.ok(resources.some(x => x.uri === r.structuredContent.uri))
    })
    await step('reads a long output whole', async () => {
      const code = 'import hashlib\nlines = [f"{i:07d} " + "é" * 40 for i in range(30000)]\nprint("\\n".join(lines))\n' +
        'hashlib.sha256(("\\n".join(lines) + "\\n").encode()).hexdigest()'
      const { structuredContent: run } = await call({ name: 'run_code', arguments: { language: 'python', code } })
      assert.ok(run.stdout.length < 32768 && run.omitted.stdout > 2000000)
      const hash = createHash('sha256')
      for (let offset = 0, total = 1; offset < total;) {
        const { structuredContent: piece } = await call({
          name: 'job', arguments: { action: 'read', job: run.job, offset, length: 65536, encoding: 'base64' }
        })
        hash.update(Buffer.from(piece.data, 'base64'))
        offset += piece.bytes
        total = piece.totalBytes
      }
      assert.equal(`'${hash.digest('hex')}'`, run.results[0].mime['text/plain'])
    })
    await step('reads a large file by URI, in pieces', async () => {
      const code = 'import random\nd = random.Random(1).randbytes(1300000)\nwith open("large.bin", "wb") as f: f.write(d)'
      await call({ name: 'run_code', arguments: { language: 'python', code } })
      const { structuredContent: file } = await call({ name: 'present_output', arguments: { path: 'large.bin' } })
      const hash = createHash('sha256')
      let pieces = 0
      for (let uri = file.uri; uri; pieces++) {
        const { contents: [piece], _meta } = await client.readResource({ uri })
        hash.update(Buffer.from(piece.blob, 'base64'))
        uri = piece._meta?.['scb/nextUri'] ?? _meta?.['scb/nextUri']
      }
      assert.ok(pieces > 1)
      assert.equal(hash.digest('hex'), file.sha256)
    })
    await step('hears of progress', async () => {
      const heard = []
      await call({ name: 'run_command', arguments: { command: 'for i in 1 2 3 4 5 6 7; do echo $i; sleep 0.5; done' } },
        { onprogress: p => heard.push(p.progress) })
      assert.ok(heard.length > 0)
    })
    await step('cancels', async () => {
      const abort = new AbortController()
      setTimeout(() => abort.abort(), 300)
      await assert.rejects(call({ name: 'run_code', arguments: { language: 'python', code: 'import time; time.sleep(30)' } },
        { signal: abort.signal }))
      const began = Date.now()
      const r = await call({ name: 'run_code', arguments: { language: 'python', code: 'x' } })
      assert.equal(r.structuredContent.results[0].mime['text/plain'], '41')
      assert.ok(Date.now() - began < 2000)
    })
    if ('stderr' in transport) { // over stdio
      await step('notices nothing when the broker is killed in the middle of a call', async () => {
        const killed = broker()
        const code = 'import time\nfor i in range(10):\n    time.sleep(0.2)\nx'
        const answer = call({ name: 'run_code', arguments: { language: 'python', code } })
        setTimeout(() => process.kill(killed, 'SIGKILL'), 500)
        const { structuredContent: run } = await answer
        assert.equal(run.results[0].mime['text/plain'], '41')
        assert.notEqual(broker(), killed)
      })
    }
  } finally {
    await step('ends when its input does', async () => {
      const began = Date.now()
      await client.close()
      assert.ok(Date.now() - began < 1900, 'the client had to use a signal')
      assert.deepEqual(errors, [], stderr)
    })
  }
}

for (const [name, [make, era]] of Object.entries(clients)) {
  await talk(make, era, async (what, test) => {
    if (!await step(`${name}: ${what}`, test) && what === 'connects') throw new Error(`${name} does not connect`)
  }).catch(e => console.log(`# ${e.message}`))
}
await end()
