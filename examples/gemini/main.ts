// An agent of the Gemini API on a desktop of deskhand. Before it starts:
//   npm install @google/genai
//   export DESKHAND_URL=http://127.0.0.1:2468 DESKHAND_TOKEN=... GEMINI_API_KEY=...
//   node main.ts "Open a terminal and tell me the kernel's version"
import { GoogleGenAI, type Content, type Part, type Tool } from "@google/genai";

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
const tool: Tool = await deskhand("/v1/desktop/computer/gemini");
const client = new GoogleGenAI({ apiKey: process.env.GEMINI_API_KEY });
const contents: Content[] = [{ role: "user", parts: [{ text: process.argv[2] ?? "What is on the screen?" }] }];
for (;;) {
  const answer = await client.models.generateContent({
    model: process.env.MODEL ?? "gemini-3.5-flash", contents, config: { tools: [tool] },
  });
  const content = answer.candidates?.[0]?.content;
  if (content) contents.push(content);
  const results: Part[] = [];
  for (const part of content?.parts ?? []) {
    if (part.text) console.log(part.text);
    // A call whose safety_decision is require_confirmation needs the user's consent, and then
    // the member safety_acknowledgement: true.
    if (part.functionCall) results.push({ functionResponse: await deskhand("/v1/desktop/computer/gemini", part.functionCall) });
  }
  if (results.length === 0) break;
  contents.push({ role: "user", parts: results });
}
