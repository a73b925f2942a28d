#!/usr/bin/env node
"use strict";
const { spawn } = require("node:child_process");
const { isatty } = require("node:tty");
const { binaryPath } = require("..");

let binary;
try {
  binary = binaryPath();
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
const args = process.argv.slice(2);

// Node.js 22.15 and later replace this process. Its id, signals and exit status
// are then the binary's.
if (process.execve) process.execve(binary, [binary, ...args], process.env);

// Before the binary can run: it may be sent a signal as soon as it does. Without a handler,
// SIGUSR1 starts the debugger of Node.js.
const relayed = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"];
for (const signal of relayed) {
  process.on(signal, () => {
    // A terminal sends the signals of its keys to the child as well.
    if ((signal === "SIGINT" || signal === "SIGQUIT") && isatty(0)) return;
    child.kill(signal);
  });
}
const child = spawn(binary, args, { stdio: "inherit" });
child.on("error", (error) => {
  console.error(`@deskhand/cli: start ${binary}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (!signal) process.exit(code);
  for (const name of relayed) process.removeAllListeners(name);
  process.kill(process.pid, signal);
});
