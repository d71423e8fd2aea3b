// Runs the tests of the pure modules: bundles tests/*.test.ts, for Node reads no imports without
// suffixes, and gives them to Node's test runner.

import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const names = readdirSync(join(HERE, "tests")).filter((name) => name.endsWith(".test.ts"));
await build({
  absWorkingDir: HERE,
  entryPoints: names.map((name) => `tests/${name}`),
  outdir: "build/tests",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  platform: "node",
  logLevel: "warning",
});
const files = names.map((name) => join(HERE, "build/tests", name.replace(/ts$/, "mjs")));
process.exit(spawnSync(process.execPath, ["--test", ...files], { stdio: "inherit" }).status ?? 1);
