// mcpjam.mjs SCB: the checks of MCPJam's SDK against `scb serve`; prints TAP.
//
// Its conformance checks (HTTP alone), those of MCP Apps, its doctor, and its validation of what tools answer.
import assert from 'node:assert/strict'
import { end, overHttp, server, step } from './place.mjs'

process.env.DO_NOT_TRACK = '1' // read when it is loaded: it would report to its makers
const { MCPAppsConformanceTest, MCPClientManager, MCPConformanceTest, runServerDoctor, validateToolCallResult } = await import('@mcpjam/sdk')

const { url, token, headers } = await overHttp()
const report = await new MCPConformanceTest({ serverUrl: url.href, accessToken: token }).run()
for (const check of report.checks) {
  const why = check.error?.message ?? ''
  // It skips what a server does not claim: log levels, completion, sessions of the protocol.
  await step(`conformance: ${check.id}${check.status === 'skipped' ? ` # SKIP ${why}` : ''}`,
    () => assert.notEqual(check.status, 'failed', why))
}

const ways = {
  HTTP: { url: url.href, requestInit: { headers } },
  stdio: { command: server.command, args: server.args, env: server.env }
}
for (const [how, config] of Object.entries(ways)) {
  const apps = await new MCPAppsConformanceTest({ ...config, timeout: 30000 }).run()
  for (const check of apps.checks) {
    await step(`${how}, apps: ${check.id}`, () => {
      assert.equal(check.status, 'passed', check.error?.message)
      assert.deepEqual(check.warnings ?? [], [])
    })
  }
  await step(`${how}: the doctor finds nothing`, async () => {
    const found = await runServerDoctor({ config, target: how, timeout: 30000 })
    assert.equal(found.status, 'ready', JSON.stringify(found.error))
    assert.equal(found.error, null)
    for (const [name, check] of Object.entries(found.checks)) {
      assert.notEqual(check.status, 'error', `${name}: ${check.detail}`)
    }
  })
  await step(`${how}: what tools answer is valid`, async () => {
    const manager = new MCPClientManager()
    await manager.connectToServer('scb', config)
    const { tools } = await manager.listTools('scb')
    assert.ok(tools.length > 5)
    const valid = async (name, args, failOnIsError = true) => {
      const answer = await manager.executeTool('scb', name, args)
      const found = validateToolCallResult(answer, { envelope: true, outcome: { failOnIsError } })
      assert.deepEqual([found.errors, found.warnings], [[], []])
      return answer
    }
    const { session } = (await valid('session', { action: 'open' })).structuredContent
    const answer = await valid('run_code', { session, code: 'import math; math.pi' })
    assert.equal(answer.structuredContent.results[0].mime['text/plain'], '3.141592653589793')
    await valid('files', { session, action: 'write', path: 'a.txt', content: 'hello' })
    const { uri } = (await valid('present_output', { session, path: 'a.txt' })).structuredContent
    assert.equal((await manager.readResource('scb', { uri })).contents[0].text, 'hello')
    assert.equal((await valid('run_code', { session: 's-no' }, false)).isError, true)
    await valid('session', { session, action: 'close' })
    await manager.disconnectServer('scb')
  })
}
await end()
