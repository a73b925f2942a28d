import { APIError, Sandbox } from "@vercel/sandbox";
import { SandboxDestroyedError } from "sandbox-agent";
import { type Provider, type ServerOptions, cleanUp, installScript, server } from "./server.js";

type CreateParams = NonNullable<Parameters<typeof Sandbox.create>[0]>;
type GetParams = Parameters<typeof Sandbox.get>[0];

/** VercelOptions say how a sandbox of Vercel is created. */
export interface VercelOptions extends ServerOptions {
  /** setup is a shell script that root runs in a new sandbox. If it is not given, it installs deskhand. */
  setup?: string;

  /** create are more parameters of `Sandbox.create`, such as `timeout` or `image`. */
  create?: CreateParams;

  /** connect are parameters of all other calls, such as `token`, `teamId` and `projectId`. */
  connect?: Omit<GetParams, "name">;
}

/** vercel runs each sandbox at Vercel. The sandbox's id is its name. */
export function vercel(options: VercelOptions = {}): Provider {
  const { token, port, env, command } = server(options);
  const get = (name: string) => Sandbox.get({ ...options.connect, name } as GetParams);

  // serve starts the server and does not wait for its end. A second server
  // ends, as the port is taken.
  async function serve(sandbox: Sandbox): Promise<void> {
    await sandbox.runCommand({ cmd: command[0]!, args: command.slice(1), env, detached: true });
  }

  return {
    name: "vercel",
    defaultCwd: "/home/vercel-sandbox",
    token,
    getToken: async () => token,
    async create() {
      const ports = [port, ...(options.create?.ports ?? [])];
      const sandbox = await Sandbox.create({ ...options.create, ports } as CreateParams);
      await cleanUp(
        async () => {
          const setup = options.setup ?? installScript;
          if (setup) {
            const done = await sandbox.runCommand({ cmd: "sh", args: ["-ec", setup], sudo: true });
            if (done.exitCode !== 0) throw new Error(`vercel: setup: exit status ${done.exitCode}: ${await done.stderr()}`);
          }
          await serve(sandbox);
        },
        () => sandbox.delete(),
      );
      return sandbox.name;
    },
    async destroy(name) {
      await (await get(name)).delete();
    },
    async pause(name) {
      await (await get(name)).stop();
    },
    async reconnect(name) {
      try {
        await get(name);
      } catch (error) {
        if (error instanceof APIError && error.response.status === 404) {
          throw new SandboxDestroyedError(name, "vercel", { cause: error });
        }
        throw error;
      }
    },
    async getUrl(name) {
      return (await get(name)).domain(port);
    },
    async ensureServer(name) {
      await serve(await get(name));
    },
  };
}
