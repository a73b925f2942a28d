// An agent of OpenAI's API on a desktop of deskhand. Before it starts:
//   npm install openai
//   export DESKHAND_URL=http://127.0.0.1:2468 DESKHAND_TOKEN=... OPENAI_API_KEY=...
//   node main.ts "Open a terminal and tell me the kernel's version"
import OpenAI from "openai";

async function deskhand(path: string, body?: unknown): Promise<any> {
  const response = await fetch(process.env.DESKHAND_URL + path, {
    method: body ? "POST" : "GET",
    headers: { authorization: `Bearer ${process.env.DESKHAND_TOKEN}`, "content-type": "application/json" },
    body: body ? JSON.stringify(body) : undefined,
  });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

await deskhand("/v1/desktop/start", {});
const tool: OpenAI.Responses.Tool = await deskhand("/v1/desktop/computer/openai");
const client = new OpenAI();
const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: process.argv[2] ?? "What is on the screen?" }];
for (;;) {
  const answer = await client.responses.create({ model: process.env.MODEL ?? "gpt-5.4", tools: [tool], input, truncation: "auto" });
  input.push(...(answer.output as OpenAI.Responses.ResponseInputItem[]));
  if (answer.output_text) console.log(answer.output_text);
  const calls = answer.output.filter((item) => item.type === "computer_call");
  if (calls.length === 0) break;
  for (const call of calls) {
    // Ask the user about call.pending_safety_checks, and add those they agree to as
    // acknowledged_safety_checks. deskhand does nothing for a call whose checks are not acknowledged.
    input.push(await deskhand("/v1/desktop/computer/openai", call));
  }
}
