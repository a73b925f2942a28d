import type { SandboxProvider } from "sandbox-agent";
import { version } from "./version.js";

/** ServerOptions are the options that all providers have. */
export interface ServerOptions {
  /**
   * token is what clients present. If it is not given, the provider makes a
   * random one, which its property `token` has. A provider that reconnects to
   * a sandbox needs the token that the sandbox was created with.
   */
  token?: string;

  /** port is the server's port in the sandbox, 2468 if not given. */
  port?: number;

  /** args are more flags of `deskhand server`, such as `["--desktop"]`. */
  args?: string[];

  /** env has more variables for the server and the agents that it starts, such as API keys. */
  env?: Record<string, string>;
}

/** Provider is a SandboxProvider of the SDK that knows its server's token. */
export interface Provider extends SandboxProvider {
  /** token is what clients of this provider's sandboxes present. */
  readonly token: string;

  /** getToken returns the token. The SDK calls it. */
  getToken(sandboxId: string): Promise<string>;
}

/** image is deskhand's container image of this package's version. */
export const image = `ghcr.io/deskhand/deskhand:${version}`;

/** home is the home directory of the image's user. */
export const home = "/home/sandbox";

/** installScript is a shell command that installs deskhand of this package's version. */
export const installScript = `curl -fsSL https://github.com/deskhand/deskhand/releases/download/v${version}/install.sh | sh`;

/** Server is how a server is started in a sandbox. */
export interface Server {
  token: string;
  port: number;
  /** env has the token and the address, so that they are on no command line. */
  env: Record<string, string>;
  /** command is a program and its arguments. */
  command: string[];
  /** script is the command for a shell. */
  script: string;
}

/** server returns how a server with those options is started. */
export function server(options: ServerOptions): Server {
  const token = options.token ?? crypto.randomUUID().replaceAll("-", "");
  const port = options.port ?? 2468;
  const command = ["deskhand", "server", ...(options.args ?? [])];
  return {
    token,
    port,
    env: { ...options.env, DESKHAND_HOST: "0.0.0.0", DESKHAND_PORT: String(port), DESKHAND_TOKEN: token },
    command,
    script: command.map(quote).join(" "),
  };
}

/** quote makes a text one word of a shell. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** cleanUp runs work and, if it fails, undo before it throws the error of work. */
export async function cleanUp<T>(work: () => Promise<T>, undo: () => Promise<unknown>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    await undo().catch(() => {});
    throw error;
  }
}
