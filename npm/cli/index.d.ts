/**
 * binaryPath returns the path of the deskhand binary for this machine. It
 * throws if the platform is not supported or the platform's package is not
 * installed.
 */
export function binaryPath(): string;
