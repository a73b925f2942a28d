// An agent of Anthropic's API on a desktop of deskhand. Before it starts:
//   npm install @anthropic-ai/sdk
//   export DESKHAND_URL=http://127.0.0.1:2468 DESKHAND_TOKEN=... ANTHROPIC_API_KEY=...
//   node main.ts "Open a terminal and tell me the kernel's version"
import Anthropic from "@anthropic-ai/sdk";

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
const tool: Anthropic.Beta.BetaToolUnion = await deskhand("/v1/desktop/computer/anthropic");
const client = new Anthropic();
const messages: Anthropic.Beta.BetaMessageParam[] = [{ role: "user", content: process.argv[2] ?? "What is on the screen?" }];
for (;;) {
  const answer = await client.beta.messages.create({
    model: process.env.MODEL ?? "claude-opus-4-5", max_tokens: 4096, betas: ["computer-use-2025-11-24"], tools: [tool], messages,
  });
  messages.push({ role: "assistant", content: answer.content });
  const results: Anthropic.Beta.BetaToolResultBlockParam[] = [];
  for (const block of answer.content) {
    if (block.type === "text") console.log(block.text);
    if (block.type === "tool_use") results.push(await deskhand("/v1/desktop/computer/anthropic", block));
  }
  if (results.length === 0) break;
  messages.push({ role: "user", content: results });
}
