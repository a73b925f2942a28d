import { type CreateSandboxFromImageParams, Daytona, type DaytonaConfig, DaytonaNotFoundError, type Sandbox } from "@daytonaio/sdk";
import { SandboxDestroyedError } from "sandbox-agent";
import { type Provider, type ServerOptions, cleanUp, home, image, server } from "./server.js";

/** DaytonaOptions say how a sandbox of Daytona is created. */
export interface DaytonaOptions extends ServerOptions {
  /** image is the container image; the published one, if not given. */
  image?: CreateSandboxFromImageParams["image"];

  /** create are more parameters of `Daytona.create`, such as `resources`. */
  create?: Partial<CreateSandboxFromImageParams>;

  /** client is the configuration of the client, such as `apiKey`. */
  client?: DaytonaConfig;

  /** urlSeconds is how long the signed URL of a sandbox is valid, a day if not given. */
  urlSeconds?: number;
}

// createSeconds bounds the creation of a sandbox. The first one of an image
// takes longest, as Daytona fetches the image.
const createSeconds = 900;

/** daytona runs each sandbox at Daytona. */
export function daytona(options: DaytonaOptions = {}): Provider {
  const { token, port, env, script } = server(options);
  const client = new Daytona(options.client);

  // serve starts the server in the background. A second server ends, as the
  // port is taken.
  async function serve(sandbox: Sandbox): Promise<void> {
    const command = `nohup ${script} >/tmp/deskhand.log 2>&1 &`;
    const { exitCode, result } = await sandbox.process.executeCommand(command, undefined, env);
    if (exitCode) throw new Error(`daytona: start the server: exit status ${exitCode}: ${result}`);
  }

  return {
    name: "daytona",
    defaultCwd: home,
    token,
    getToken: async () => token,
    async create() {
      // Programs that deskhand does not start have these, so the token is not among them.
      const parameters = { image: options.image ?? image, ...options.create, envVars: { ...options.create?.envVars, ...options.env } };
      const sandbox = await client.create(parameters, { timeout: createSeconds });
      await cleanUp(
        () => serve(sandbox),
        () => sandbox.delete(),
      );
      return sandbox.id;
    },
    async destroy(id) {
      try {
        await (await client.get(id)).delete();
      } catch (error) {
        if (!(error instanceof DaytonaNotFoundError)) throw error;
      }
    },
    async pause(id) {
      await (await client.get(id)).stop();
    },
    async reconnect(id) {
      try {
        const sandbox = await client.get(id);
        if (sandbox.state !== "started") await sandbox.start();
      } catch (error) {
        if (error instanceof DaytonaNotFoundError) throw new SandboxDestroyedError(id, "daytona", { cause: error });
        throw error;
      }
    },
    async getUrl(id) {
      const { url } = await (await client.get(id)).getSignedPreviewUrl(port, options.urlSeconds ?? 86_400);
      return url;
    },
    async ensureServer(id) {
      await serve(await client.get(id));
    },
  };
}
