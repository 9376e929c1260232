// client.mjs URL: the official client's way through all that asks it, against the fixture server, in both
// eras. It checks what it gets by its own schemas. Prints a list of [what, as expected, what came].
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'

const fill = (schema) => schema.type === 'boolean' ? true : schema.default ?? schema.enum?.[0] ?? 'blue'
const done = []

const calls = [
  ['test_input_required_result_elicitation', {}, 'Hello, blue!'],
  ['test_input_required_result_multi_round', {}, 'Multi-round complete for blue who likes blue'],
  ['test_input_required_result_multiple_inputs', {}, 'Name: blue; Greeting: Paris; Roots: 1'],
  ['test_input_required_result_request_state', {}, 'state-ok'],
  ['test_sampling', { prompt: 'x' }, 'LLM response: Paris'],
  ['test_elicitation', { message: 'x' }, 'User response: action=accept, content={"username":"blue","email":"blue"}'],
  ['test_header_parameters', { region: 'eu ü', limit: 42, verbose: true }, 'called with: {"region":"eu ü","limit":42,"verbose":true}'],
  ['json_schema_2020_12_tool', { phone: '1' }, 'called with: {"phone":"1"}']
]

async function attempt (what, wanted, run) {
  let came
  try {
    came = await run()
  } catch (e) {
    came = String(e)
  }
  done.push([what, came.startsWith(wanted), came])
}

for (const mode of ['legacy', 'auto']) {
  const client = new Client({ name: 'scb-conformance', version: '1' }, {
    capabilities: { elicitation: { form: {} }, sampling: {}, roots: {} },
    versionNegotiation: { mode }
  })
  client.setRequestHandler('elicitation/create', async ({ params }) => ({
    action: 'accept',
    content: Object.fromEntries(Object.entries(params.requestedSchema.properties).map(([name, schema]) => [name, fill(schema)]))
  }))
  client.setRequestHandler('sampling/createMessage', async () => ({
    role: 'assistant', content: { type: 'text', text: 'Paris' }, model: 'none'
  }))
  client.setRequestHandler('roots/list', async () => ({ roots: [{ uri: 'file:///a' }] }))
  await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])))
  await client.listTools() // which arguments stand in header fields
  for (const [name, args, wanted] of calls) {
    await attempt(`${mode} ${name}`, wanted, async () => (await client.callTool({ name, arguments: args })).content[0].text)
  }
  if (mode === 'auto') {
    await attempt(`${mode} prompts/get`, 'Prompt with context: blue', async () =>
      (await client.getPrompt({ name: 'test_input_required_result_prompt' })).messages[0].content.text)
  }
  await client.close()
}
console.log(JSON.stringify(done))
