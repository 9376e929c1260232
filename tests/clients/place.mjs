// place.mjs SCB: a home of its own for `scb serve`, over stdio and HTTP; TAP.
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export const scb = process.argv[2]
export const home = mkdtempSync(join(tmpdir(), 'scb-clients-'))
export const state = join(home, 'state')
mkdirSync(join(home, 'run'), { mode: 0o700 })
export const env = {
  PATH: process.env.PATH,
  HOME: home,
  LANG: 'C.UTF-8',
  XDG_RUNTIME_DIR: join(home, 'run'),
  BROKER_PROVIDER: 'bubblewrap'
}

// What a host starts.
export const server = { command: scb, args: ['serve', '--state', state], env, stderr: 'pipe' }

// One server for all clients over HTTP: its URL and token. Another state directory than stdio's.
let web
export async function overHttp () {
  if (!web) {
    const where = join(home, 'http')
    const process_ = spawn(scb, ['serve', '--http', '127.0.0.1:0', '--state', where],
      { env, stdio: ['ignore', 'ignore', 'pipe'] })
    const url = await new Promise((resolve, reject) => {
      let said = ''
      process_.stderr.on('data', d => {
        said += d
        const found = said.match(/http:\/\/\S+\/mcp/)
        if (found) resolve(new URL(found[0]))
      })
      process_.on('exit', () => reject(new Error(said)))
    })
    const token = readFileSync(join(where, 'http-token'), 'utf8')
    web = { process: process_, state: where, url, token, headers: { Authorization: `Bearer ${token}` } }
  }
  return web
}

// The pid of stdio's broker.
export function broker () {
  return JSON.parse(readFileSync(join(state, 'broker.json'), 'utf8')).pid
}

export function closeSessions (where = state) {
  execFileSync(scb, ['sessions', 'close', '--all', '--state', where], { env, stdio: 'ignore' })
}

let n = 0
let failed = 0
// The test's result; what went wrong stands below its line.
export async function step (what, test) {
  n++
  try {
    await test()
    console.log(`ok ${n} - ${what}`)
    return true
  } catch (e) {
    failed++
    console.log(`not ok ${n} - ${what}`)
    for (const line of String(e.stack ?? e).split('\n')) console.log('# ' + line)
    return false
  }
}

// The plan, the end of all that was started, and this process's own.
export async function end () {
  console.log(`1..${n}`)
  closeSessions() // they outlive the clients
  if (web) {
    closeSessions(web.state)
    web.process.removeAllListeners('exit')
    const ended = new Promise(resolve => web.process.on('exit', resolve))
    web.process.kill()
    await ended
  }
  rmSync(home, { recursive: true, force: true })
  process.exit(failed ? 1 : 0)
}
