// clients.mjs SCB: the official MCP clients against `scb serve`, over stdio and HTTP; prints TAP.
//
// v1 (@modelcontextprotocol/sdk) speaks the legacy era; v2 (@modelcontextprotocol/client) is tried in
// each of its ways to begin: legacy, auto (asks a sibling process first) and pinned to 2026-07-28.
// Both validate what they get: message shapes, and structured content against our output schemas.
import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const scb = process.argv[2]
const home = mkdtempSync(join(tmpdir(), 'scb-clients-'))
const server = {
  command: scb,
  args: ['serve'],
  env: { PATH: process.env.PATH, HOME: home, XDG_STATE_HOME: join(home, 'state'), BROKER_PROVIDER: 'bubblewrap' },
  stderr: 'pipe'
}

// One server for all clients over HTTP: its URL and what authorizes.
let web
async function overHttp () {
  if (!web) {
    const state = join(home, 'http')
    const process_ = spawn(scb, ['serve', '--http', '127.0.0.1:0', '--state', state], { env: server.env, stdio: ['ignore', 'ignore', 'pipe'] })
    const url = await new Promise((resolve, reject) => {
      let said = ''
      process_.stderr.on('data', d => {
        said += d
        const found = said.match(/http:\/\/\S+\/mcp/)
        if (found) resolve(new URL(found[0]))
      })
      process_.on('exit', () => reject(new Error(said)))
    })
    const token = readFileSync(join(state, 'http-token'), 'utf8')
    web = { process: process_, state, url, options: { requestInit: { headers: { Authorization: `Bearer ${token}` } } } }
  }
  return web
}

const httpV1 = async () => {
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
  const { url, options } = await overHttp()
  const client = new Client({ name: 'scb-clients', version: '1' }, { capabilities: {} })
  return { client, transport: new StreamableHTTPClientTransport(url, options), call: (p, o) => client.callTool(p, undefined, o) }
}

const httpV2 = mode => async () => {
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client')
  const { url, options } = await overHttp()
  const client = new Client({ name: 'scb-clients', version: '1' }, { capabilities: {}, versionNegotiation: { mode } })
  return { client, transport: new StreamableHTTPClientTransport(url, options), call: (p, o) => client.callTool(p, o) }
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
      assert.deepEqual(tools.map(t => t.name), ['run_code', 'run_command', 'job', 'files', 'present_output', 'session'])
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
  } finally {
    await step('ends when its input does', async () => {
      const began = Date.now()
      await client.close()
      assert.ok(Date.now() - began < 1900, 'the client had to use a signal')
      assert.deepEqual(errors, [], stderr)
    })
  }
}

let n = 0
let failed = 0
for (const [name, [make, era]] of Object.entries(clients)) {
  const step = async (what, test) => {
    n++
    try {
      await test()
      console.log(`ok ${n} - ${name}: ${what}`)
    } catch (e) {
      failed++
      console.log(`not ok ${n} - ${name}: ${what}`)
      for (const line of String(e.stack ?? e).split('\n')) console.log('# ' + line)
      if (what === 'connects') throw e
    }
  }
  try {
    await talk(make, era, step)
  } catch (e) {
    console.log(`# ${name}: ${e.message}`)
  }
}
console.log(`1..${n}`)
// their sessions outlive the clients
execFileSync(scb, ['sessions', 'close', '--all'], { env: server.env, stdio: 'ignore' })
if (web) {
  execFileSync(scb, ['sessions', 'close', '--all', '--state', web.state], { env: server.env, stdio: 'ignore' })
  web.process.removeAllListeners('exit')
  const ended = new Promise(resolve => web.process.on('exit', resolve))
  web.process.kill()
  await ended
}
rmSync(home, { recursive: true, force: true })
process.exit(failed ? 1 : 0)
