import { execFile } from "node:child_process";
import { get } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { SandboxDestroyedError } from "sandbox-agent";
import { type Provider, type ServerOptions, cleanUp, home, image, server } from "./server.js";

/** DockerOptions say how a container is started. */
export interface DockerOptions extends ServerOptions {
  /** image is the container image; the published one, if not given. */
  image?: string;

  /** command is the client program: `docker`, if not given, or another with its flags, such as `podman`. */
  command?: string;

  /** run are more flags of `docker run`, such as `["--shm-size=1g"]`. */
  run?: string[];
}

const startLimit = 60_000;

/**
 * docker runs each sandbox as a container. The container's port is published
 * on a free port of 127.0.0.1. It uses the docker command, and with it the
 * context and the variables of the user.
 */
export function docker(options: DockerOptions = {}): Provider {
  const { token, port, env, command } = server(options);
  const client = options.command ?? "docker";
  const run = promisify(execFile);

  async function call(...args: string[]): Promise<string> {
    // The values of variables are not on the command line.
    const { stdout } = await run(client, args, { env: { ...process.env, ...env } });
    return stdout.trim();
  }

  async function getUrl(id: string): Promise<string> {
    const address = (await call("port", id, `${port}/tcp`)).split("\n")[0];
    return `http://${address}`;
  }

  // state returns the state of a container: running, paused, exited.
  async function state(id: string): Promise<string> {
    return await call("inspect", "--format", "{{.State.Status}}", id);
  }

  // ready waits until the server answers.
  async function ready(id: string): Promise<void> {
    for (const end = Date.now() + startLimit; ; await delay(50)) {
      const now = await state(id);
      if (now !== "running" || Date.now() > end) {
        const { stdout, stderr } = await run(client, ["logs", "--tail", "20", id]);
        throw new Error(`docker: the server in container ${id} does not answer, the container is ${now}; it printed:\n${stdout}${stderr}`);
      }
      // A container that has just ended has no address.
      const status = await getUrl(id).then((url) => health(url, token), () => undefined);
      if (status === 200) return;
      if (status === 401) throw new Error(`docker: container ${id} has another token; give the token that it was created with`);
    }
  }

  async function destroy(id: string): Promise<void> {
    try {
      await call("stop", "--time", "10", id);
      await call("rm", "--force", "--volumes", id);
    } catch (error) {
      if (!gone(error)) throw error;
    }
  }

  return {
    name: "docker",
    defaultCwd: home,
    token,
    getToken: async () => token,
    getUrl,
    destroy,
    async create() {
      const id = await call(
        "run",
        "--detach",
        `--publish=127.0.0.1::${port}/tcp`,
        ...Object.keys(env).flatMap((name) => ["--env", name]),
        ...(options.run ?? []),
        options.image ?? image,
        ...command.slice(1), // the image's entry point is deskhand
      );
      await cleanUp(
        () => ready(id),
        () => destroy(id),
      );
      return id;
    },
    async pause(id) {
      await call("pause", id);
    },
    async reconnect(id) {
      try {
        const now = await state(id);
        if (now === "paused") await call("unpause", id);
        else if (now !== "running") await call("start", id);
      } catch (error) {
        if (gone(error)) throw new SandboxDestroyedError(id, "docker", { cause: error });
        throw error;
      }
      await ready(id);
    },
  };
}

/**
 * health returns the status of a server's answer, or undefined. It does not use
 * fetch: Docker's proxy accepts connections before the server listens and
 * closes them, on which fetch of Node.js 20 hangs.
 */
function health(url: string, token: string): Promise<number | undefined> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${token}` };
    const attempt = get(`${url}/v1/health`, { agent: false, headers, timeout: 1000 }, (response) => {
      response.resume();
      resolve(response.statusCode);
    });
    attempt.on("timeout", () => attempt.destroy());
    attempt.on("error", () => resolve(undefined));
  });
}

/** gone says whether a command failed since the container does not exist. */
function gone(error: unknown): boolean {
  return error instanceof Error && /No such (container|object)|no container with/i.test(error.message);
}
