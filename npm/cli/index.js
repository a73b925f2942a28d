"use strict";
const fs = require("node:fs");
const path = require("node:path");

// platforms are the values of process.arch that have a package.
const platforms = ["x64", "arm64", "arm"];

/** binaryPath returns the path of the deskhand binary for this machine. */
function binaryPath() {
  if (process.platform !== "linux" || !platforms.includes(process.arch)) {
    throw new Error(
      `@deskhand/cli: deskhand does not run on ${process.platform}-${process.arch}; ` +
        `it runs on ${platforms.map((arch) => `linux-${arch}`).join(", ")}`,
    );
  }
  const name = `@deskhand/cli-linux-${process.arch}`;
  let manifest;
  try {
    manifest = require.resolve(`${name}/package.json`);
  } catch {
    throw new Error(
      `@deskhand/cli: the package ${name} is missing; install @deskhand/cli again with optional dependencies ` +
        "(without --omit=optional or --no-optional), on the platform where it runs",
    );
  }
  const binary = path.join(path.dirname(manifest), "bin", "deskhand");
  try {
    fs.accessSync(binary, fs.constants.X_OK);
  } catch (error) {
    throw new Error(`@deskhand/cli: ${binary} cannot be executed: ${error.code}; install @deskhand/cli again`);
  }
  return binary;
}

module.exports = { binaryPath };
