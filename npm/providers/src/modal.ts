import { type Image, ModalClient, type ModalClientParams, NotFoundError, type SandboxCreateParams } from "modal";
import { SandboxDestroyedError } from "sandbox-agent";
import { type Provider, type ServerOptions, home, image, server } from "./server.js";

/** ModalOptions say how a sandbox of Modal is created. */
export interface ModalOptions extends ServerOptions {
  /** image is the container image; the published one, if not given. */
  image?: string | Image;

  /** app is the name of the Modal app, `deskhand` if not given. It is created if it does not exist. */
  app?: string;

  /** create are more parameters of `sandboxes.create`, such as `timeoutMs` or `memoryMiB`. */
  create?: SandboxCreateParams;

  /** client are parameters of the client, such as `tokenId` and `tokenSecret`. */
  client?: ModalClientParams;
}

/** modal runs each sandbox at Modal, with the server as its main process. */
export function modal(options: ModalOptions = {}): Provider {
  const { token, port, env, command } = server(options);
  const client = new ModalClient(options.client);

  return {
    name: "modal",
    defaultCwd: home,
    token,
    getToken: async () => token,
    async create() {
      const app = await client.apps.fromName(options.app ?? "deskhand", { createIfMissing: true });
      const from = options.image ?? image;
      // Modal runs its own program in the container, which an entry point would keep from starting.
      const base = typeof from === "string" ? client.images.fromRegistry(from).dockerfileCommands(["ENTRYPOINT []"]) : from;
      const sandbox = await client.sandboxes.create(app, base, {
        ...options.create,
        command,
        env: { ...options.create?.env, ...env },
        encryptedPorts: [port, ...(options.create?.encryptedPorts ?? [])],
      });
      return sandbox.sandboxId;
    },
    async destroy(id) {
      await (await client.sandboxes.fromId(id)).terminate();
    },
    async reconnect(id) {
      try {
        const status = await (await client.sandboxes.fromId(id)).poll();
        if (status !== null) throw new NotFoundError(`the server ended with exit status ${status}`);
      } catch (error) {
        if (error instanceof NotFoundError) throw new SandboxDestroyedError(id, "modal", { cause: error });
        throw error;
      }
    },
    async getUrl(id) {
      const tunnels = await (await client.sandboxes.fromId(id)).tunnels();
      const tunnel = tunnels[port];
      if (!tunnel) throw new Error(`modal: sandbox ${id} has no tunnel to port ${port}; give the port that it was created with`);
      return tunnel.url;
    },
  };
}
