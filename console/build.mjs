// Bundles the console into src/trainshed/api/console/static: hashed names, a .gz beside each file,
// the licences of everything bundled, and the digest of the sources that `make test` compares.
// The output depends on nothing but the sources and package-lock.json.

import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));
const OUT = process.env.CONSOLE_OUT ?? join(HERE, "../src/trainshed/api/console/static");
const PREFIX = "/console/static/";
/** Folders and files of console/ that are not sources of the bundle. */
const NO_SOURCES = new Set(["node_modules", "build", "tests", "README.md", ".npmrc"]);

function sourceFiles(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => folder !== HERE || !NO_SOURCES.has(entry.name))
    .flatMap((entry) => {
      const path = join(folder, entry.name);
      return entry.isDirectory() ? sourceFiles(path) : [path];
    });
}

/** Return the SHA-256 of all sources; tests/console/test_bundle.py computes the same. */
function sourceDigest() {
  const digest = createHash("sha256");
  const names = sourceFiles(HERE).map((path) => relative(HERE, path).split(sep).join("/"));
  for (const name of names.sort()) {
    digest.update(`${name}\0`);
    digest.update(createHash("sha256").update(readFileSync(join(HERE, name))).digest());
  }
  return digest.digest("hex");
}

/** Return the folders in node_modules of which the bundle has code, sorted. */
function bundledPackages(metafile) {
  const names = new Set();
  for (const output of Object.values(metafile.outputs)) {
    for (const [path, input] of Object.entries(output.inputs)) {
      const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path);
      if (match && input.bytesInOutput > 0) names.add(match[1]);
    }
  }
  return [...names].sort();
}

/** Return the licence and notice files of one package, also those in a folder `licenses`. */
function licenceFiles(folder) {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => /^(licen[cs]e|notice|copying)/i.test(entry.name))
    .flatMap((entry) => {
      if (!entry.isDirectory()) return [entry.name];
      return readdirSync(join(folder, entry.name)).map((file) => join(entry.name, file));
    });
}

/** Return the texts of the licence and notice files of one package. */
function licenceTexts(name) {
  const folder = join(HERE, "node_modules", name);
  const files = licenceFiles(folder);
  if (!files.some((file) => /^(licen[cs]e|copying)/i.test(file))) {
    throw new Error(`${name} has no licence file; add its text to build.mjs`);
  }
  return files.sort().map((file) => readFileSync(join(folder, file), "utf8").trim());
}

function licences(metafile) {
  const parts = bundledPackages(metafile).map((name) => {
    const about = JSON.parse(readFileSync(join(HERE, "node_modules", name, "package.json"), "utf8"));
    const title = `${name} ${about.version} (${about.license})`;
    return [title, "=".repeat(title.length), ...licenceTexts(name)].join("\n\n");
  });
  const head = "The files in this folder contain code of these packages, under the licences below.";
  return `${[head, ...parts].join("\n\n\n")}\n`;
}

function writeFile(name, contents) {
  writeFileSync(join(OUT, name), contents);
  writeFileSync(join(OUT, `${name}.gz`), gzipSync(contents, { level: 9 }));
}

/** Return the scripts that a script needs before it runs; lazily loaded ones are not among them. */
function neededScripts(metafile, script) {
  const outputs = new Map(Object.entries(metafile.outputs).map(([path, output]) => [basename(path), output]));
  const needed = new Set();
  const add = (name) => {
    for (const { path, kind } of outputs.get(name).imports) {
      const other = basename(path);
      if (kind === "import-statement" && !needed.has(other)) {
        needed.add(other);
        add(other);
      }
    }
  };
  add(script);
  return [...needed].sort();
}

/**
 * Return the page: @NONCE@ stands for what the server puts into each answer. It names all scripts that
 * the first one needs, so that a browser requests them together.
 */
function indexPage(names, revision, metafile) {
  const script = names.find((name) => /^main-\w+\.js$/.test(name));
  const theme = names.find((name) => /^theme-\w+\.js$/.test(name));
  const style = names.find((name) => /^main-\w+\.css$/.test(name));
  const preloads = neededScripts(metafile, script).map((name) => `<link rel="modulepreload" href="${PREFIX}${name}">`);
  return readFileSync(join(HERE, "src/index.html"), "utf8")
    .replace("@SCRIPT@", PREFIX + script)
    .replace("@PRELOADS@", preloads.join("\n"))
    .replace("@THEME@", PREFIX + theme)
    .replace("@STYLE@", PREFIX + style)
    .replace("@REVISION@", revision);
}

const result = await build({
  absWorkingDir: HERE,
  entryPoints: { main: "src/main.tsx", theme: "src/theme.ts" },
  outdir: OUT,
  bundle: true,
  splitting: true,
  format: "esm",
  target: ["es2022"],
  minify: true,
  legalComments: "none",
  jsx: "automatic",
  jsxImportSource: "preact",
  entryNames: "[name]-[hash]",
  chunkNames: "chunk-[hash]",
  assetNames: "[name]-[hash]",
  loader: { ".svg": "file" },
  metafile: true,
  write: false,
});

const revision = sourceDigest();
rmSync(OUT, { recursive: true, force: true });
mkdirSync(OUT, { recursive: true });
const names = result.outputFiles.map((file) => relative(OUT, file.path));
result.outputFiles.forEach((file, index) => writeFile(names[index], file.contents));
writeFileSync(join(OUT, "index.html"), indexPage(names, revision.slice(0, 16), result.metafile));
writeFileSync(join(OUT, "LICENSES.txt"), licences(result.metafile));
writeFileSync(join(OUT, "sources.sha256"), `${revision}\n`);
console.log(`${names.length} files, revision ${revision.slice(0, 16)}`);
