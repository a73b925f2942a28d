import { type SandboxOptions, getSandbox } from "@cloudflare/sandbox";
import { type Provider, type ServerOptions, cleanUp, server } from "./server.js";

/** CloudflareOptions say how a sandbox of Cloudflare is started. */
export interface CloudflareOptions extends ServerOptions {
  /** namespace is the Worker's binding of the class Sandbox, whose image has deskhand. */
  namespace: Parameters<typeof getSandbox>[0];

  /** sandbox are options of `getSandbox`, such as `sleepAfter`. */
  sandbox?: SandboxOptions;
}

/**
 * cloudflare runs each sandbox as a container of a Worker. It has no URL:
 * requests go through the Worker's binding.
 */
export function cloudflare(options: CloudflareOptions): Provider {
  const { token, port, env, script } = server(options);
  const get = (id: string) => getSandbox(options.namespace, id, options.sandbox);

  // serve starts the server, unless it runs, and waits until it listens.
  async function serve(id: string): Promise<void> {
    const sandbox = get(id);
    const running = await sandbox.getProcess("deskhand");
    if (running?.status === "starting" || running?.status === "running") return;
    const process = await sandbox.startProcess(script, { processId: "deskhand", env });
    await process.waitForPort(port, { mode: "tcp" });
  }

  return {
    name: "cloudflare",
    defaultCwd: "/workspace",
    token,
    getToken: async () => token,
    async create() {
      const id = crypto.randomUUID();
      await cleanUp(
        () => serve(id),
        () => get(id).destroy(),
      );
      return id;
    },
    async destroy(id) {
      await get(id).destroy();
    },
    async getFetch(id) {
      const sandbox = get(id);
      // A signal cannot be sent to a Durable Object.
      return async (input, init) => await sandbox.containerFetch(new Request(input, { ...init, signal: null }), port);
    },
    ensureServer: serve,
  };
}
