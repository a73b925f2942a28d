// The published SDK's desktop methods against a running server. The order of the
// tests matters: they share one desktop, as a program that uses the SDK would.
import { after as close } from "node:test";
import * as apps from "./apps.mjs";
import * as input from "./input.mjs";
import { agent } from "./lib.mjs";
import * as lifecycle from "./lifecycle.mjs";
import { provider } from "./local.mjs";
import * as recording from "./recording.mjs";
import * as screen from "./screen.mjs";

lifecycle.before();
apps.before();
screen.screenshots();
screen.regions();
input.pointer();
input.keyboard();
input.clipboard();
apps.windows();
recording.recordings();
apps.after();
recording.ended(lifecycle.screen);
lifecycle.after();
provider();

close(() => agent.dispose());
