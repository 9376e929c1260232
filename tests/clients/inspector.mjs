// inspector.mjs SCB: MCP Inspector's command line against `scb serve`, as a person uses it; prints TAP.
//
// Each command is a process of its own, that connects anew: over stdio it starts a host's server each time.
// What one leaves in a session is there for the next, since both name it.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { end, env, home, overHttp, server, step } from './place.mjs'

const require = createRequire(import.meta.url)
const inspector = join(dirname(require.resolve('@modelcontextprotocol/inspector/package.json')),
  'clients/launcher/build/index.js')

// Exit status, what it printed, what it complained of. --quiet: nothing is said unless something is wrong.
function inspect (...args) {
  return new Promise(resolve => {
    execFile(process.execPath, [inspector, '--cli', '--quiet', '--format', 'json', ...args], { env },
      (e, stdout, stderr) => resolve({ status: e ? e.code : 0, stdout, stderr }))
  })
}

async function envelope (...args) {
  const { status, stdout, stderr } = await inspect(...args)
  assert.deepEqual([status, stderr], [0, ''], stdout)
  return JSON.parse(stdout)
}

const result = async (...args) => (await envelope(...args)).result

const call = (way, name, args) =>
  result(...way, '--method', 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(args))

async function strict (how, way) {
  await step(`${how}: tools/list --strict finds nothing`, async () => {
    const { result, schemaFindings } = await envelope(...way, '--method', 'tools/list', '--strict')
    assert.ok(result.tools.some(t => t.name === 'run_code'))
    assert.deepEqual(schemaFindings ?? [], [])
  })
}

async function person (how, way) {
  await step(`${how}: tools/call; variables and files are there in the next process`, async () => {
    const first = await call(way, 'run_code', { code: 'x = 6 * 7; open("out.bin", "wb").write(bytes(range(256)) * 40)' })
    const session = first.structuredContent.session
    const second = await call(way, 'run_code', { code: 'x', session })
    assert.equal(second.structuredContent.results[0].mime['text/plain'], '42')
    const { uri, bytes } = (await call(way, 'present_output', { path: 'out.bin', session })).structuredContent
    assert.equal(bytes, 10240)
    const { resources } = await result(...way, '--method', 'resources/list')
    assert.ok(resources.some(r => r.uri === uri))
    const file = join(home, 'read-back')
    const read = await inspect(...way, '--method', 'resources/read', '--uri', uri, '--output', file, '--output-format', 'raw')
    assert.deepEqual([read.status, read.stderr], [0, ''])
    assert.ok(readFileSync(file).equals(Buffer.from([...Array(10240).keys()].map(i => i % 256))))
    await call(way, 'session', { action: 'close', session })
  })
  await step(`${how}: what is not there is an empty list, a wrong argument the tool's own words`, async () => {
    assert.deepEqual((await result(...way, '--method', 'prompts/list')).prompts, [])
    assert.deepEqual((await result(...way, '--method', 'resources/templates/list')).resourceTemplates, [])
    const { status, stdout } = await inspect(...way, '--method', 'tools/call', '--tool-name', 'run_code',
      '--tool-args-json', '{"cod": "1"}')
    assert.equal(status, 5) // its status for isError
    assert.match(stdout, /unknown argument \\"cod\\"/)
  })
}

const web = await overHttp()
const http = ['--server-url', web.url.href, '--transport', 'http']
const authorized = [...http, '--header', `Authorization: Bearer ${web.token}`]
const stdio = [server.command, ...server.args]
for (const era of ['legacy', 'auto', 'modern']) {
  await strict(`stdio, ${era}`, [...stdio, '--protocol-era', era])
  await strict(`HTTP, ${era}`, [...authorized, '--protocol-era', era])
}
await person('stdio, legacy', [...stdio, '--protocol-era', 'legacy'])
await person('HTTP, modern', [...authorized, '--protocol-era', 'modern'])
await step('HTTP: without the token it is asked for, in words', async () => {
  const { status, stderr } = await inspect(...http, '--stored-auth-only', '--method', 'tools/list')
  assert.equal(status, 3) // its status for "authorization is required"
  assert.match(stderr, /Authorization: Bearer/)
})
await step('HTTP: its load test, eight calls at once in one session, has no error', async () => {
  const { session } = (await call(authorized, 'session', { action: 'open' })).structuredContent
  const report = await inspect(...authorized, '--method', 'tools/call', '--tool-name', 'run_command', '--load',
    '--load-requests', '60', '--load-concurrency', '8', '--tool-args-json', JSON.stringify({ command: 'true', session }))
  assert.equal(report.status, 0, report.stderr)
  const { ok, requests } = JSON.parse(report.stdout).result ?? JSON.parse(report.stdout)
  assert.deepEqual([ok, requests], [60, 60], report.stdout)
})
await end()
