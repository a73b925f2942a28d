import { binaryPath } from "@deskhand/cli";
import { type LocalProviderOptions, local as start } from "sandbox-agent/local";
import type { SandboxProvider } from "sandbox-agent";

/** LocalOptions are the options of the SDK's own `local()`. */
export type LocalOptions = LocalProviderOptions;

/** local starts the binary of @deskhand/cli on this machine. */
export function local(options: LocalOptions = {}): SandboxProvider {
  return start({ binaryPath: binaryPath(), ...options });
}
