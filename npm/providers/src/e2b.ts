import { CommandExitError, NotFoundError, Sandbox, type SandboxConnectOpts, type SandboxOpts } from "e2b";
import { SandboxDestroyedError } from "sandbox-agent";
import { type Provider, type ServerOptions, cleanUp, installScript, server } from "./server.js";

/** E2BOptions say how a sandbox of E2B is created. */
export interface E2BOptions extends ServerOptions {
  /** template is one that has deskhand. If it is not given, setup is run in E2B's own template. */
  template?: string;

  /**
   * setup is a shell script that root runs in a new sandbox. If it is not
   * given and there is no template, it installs deskhand and what desktops need.
   */
  setup?: string;

  /** create are more options of `Sandbox.create`, such as `timeoutMs`. */
  create?: SandboxOpts;

  /** connect are options of all other calls, such as `apiKey`. */
  connect?: SandboxConnectOpts;
}

/** e2b runs each sandbox at E2B. */
export function e2b(options: E2BOptions = {}): Provider {
  const { token, port, env, script } = server(options);
  const setup = options.setup ?? (options.template ? "" : `set -e; ${installScript}; deskhand install desktop --yes`);
  const connect = (id: string) => Sandbox.connect(id, options.connect);

  async function prepare(sandbox: Sandbox): Promise<void> {
    try {
      await sandbox.commands.run(setup, { user: "root", timeoutMs: 0 });
    } catch (error) {
      if (!(error instanceof CommandExitError)) throw error;
      throw new Error(`e2b: setup: exit status ${error.exitCode}: ${error.stderr}`, { cause: error });
    }
  }

  // serve starts the server and lets go of it. A second server ends, as the
  // port is taken.
  async function serve(sandbox: Sandbox): Promise<void> {
    const handle = await sandbox.commands.run(script, { background: true, timeoutMs: 0, envs: env });
    await handle.disconnect();
  }

  return {
    name: "e2b",
    defaultCwd: "/home/user",
    token,
    getToken: async () => token,
    async create() {
      const sandbox = await (options.template ? Sandbox.create(options.template, options.create) : Sandbox.create(options.create));
      await cleanUp(
        async () => {
          if (setup) await prepare(sandbox);
          await serve(sandbox);
        },
        () => sandbox.kill(),
      );
      return sandbox.sandboxId;
    },
    async destroy(id) {
      await Sandbox.kill(id, options.connect);
    },
    async pause(id) {
      await Sandbox.pause(id, options.connect);
    },
    async reconnect(id) {
      try {
        await connect(id);
      } catch (error) {
        if (error instanceof NotFoundError) throw new SandboxDestroyedError(id, "e2b", { cause: error });
        throw error;
      }
    },
    async getUrl(id) {
      return `https://${(await connect(id)).getHost(port)}`;
    },
    async ensureServer(id) {
      await serve(await connect(id));
    },
  };
}
