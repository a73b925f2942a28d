// One fresh program that has the published SDK run an image: NODE_MODULES IMAGE.
import { pathToFileURL } from "node:url";

const [modules, image] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${modules}/${file}`));
const { SandboxAgent } = await load("sandbox-agent/dist/index.js");
const { docker } = await load("sandbox-agent/dist/providers/docker.js");

const agent = await SandboxAgent.start({ sandbox: docker({ image }) });
try {
  const health = await agent.getHealth();
  if (health.status !== "ok") throw new Error(`health: ${JSON.stringify(health)}`);
  const result = await agent.runProcess({ command: "pwd" });
  if (result.stdout.trim() !== "/home/sandbox") throw new Error(`pwd: ${JSON.stringify(result)}`);
} finally {
  await agent.destroySandbox();
  await agent.dispose();
}
