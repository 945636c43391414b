// Builds the page: dist/ has what the binaries embed, build/test/ what node's test runner runs.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readdirSync } from "node:fs";

const shared = { bundle: true, jsx: "automatic", jsxImportSource: "preact", target: "es2022", logLevel: "warning", legalComments: "none" };

if (process.argv.includes("--test")) {
  const tests = readdirSync("test").filter((name) => /\.test\.tsx?$/.test(name));
  await build({ ...shared, entryPoints: tests.map((name) => `test/${name}`), outdir: "build/test", outExtension: { ".js": ".mjs" }, format: "esm", platform: "node" });
} else {
  mkdirSync("dist", { recursive: true });
  await build({ ...shared, entryPoints: ["src/app.tsx", "src/app.css"], outdir: "dist", format: "iife", minify: true });
  for (const name of ["index.html", "icon.svg"]) copyFileSync(`src/${name}`, `dist/${name}`);
}
