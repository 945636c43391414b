// Looks at each view of a running page in Chromium, in light and dark, wide and as a phone: axe-core's findings, errors of the console such as those of the
// Content-Security-Policy, text that is wider than the screen. Usage: node axe.mjs URL [SCREENSHOT.png]. CHROMIUM names the browser.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [url, screenshot] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({ executablePath: process.env.CHROMIUM || "/usr/bin/chromium", acceptInsecureCerts: true, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage();
const errors = [];
page.on("console", (m) => m.type() === "error" && !/status of 40[134]/.test(m.text()) && errors.push(m.text()));
page.on("pageerror", (e) => errors.push(e.message));
page.on("request", (r) => new URL(r.url()).origin === new URL(url).origin || errors.push(`asked for ${r.url()}`));

const open = async (hash) => {
  await page.goto("about:blank");
  await page.goto(url + hash, { waitUntil: "load" });
  await page.waitForFunction(() => !/Asking the launcher/.test(document.body.innerText), { timeout: 30000 });
};
const first = (selector) => page.evaluate((s) => document.querySelector(s)?.getAttribute("href"), selector);

await open("#/cluster");
const node = await first('a[href^="#/nodes/"]');
await open("#/pending");
const pending = await first('a[href^="#/pods/"]');
let pod;
if (node) {
  await open(node);
  pod = await page.waitForSelector('a[href^="#/pods/"]', { timeout: 5000 }).then(() => first('a[href^="#/pods/"]'), () => null);
}
const views = { cluster: "#/cluster", filtered: "#/cluster?filter=spot&sort=-price", pending: "#/pending", node, "pending pod": pending, pod, decisions: "#/decisions", "what is not there": "#/nodes/none", "no view": "#/none" };

let bad = 0, seen = 0;
for (const [name, hash] of Object.entries(views)) {
  if (!hash) {
    console.log(`${name}: not looked at, the cluster has none`);
    continue;
  }
  for (const scheme of ["light", "dark"]) {
    for (const [width, height] of [[1280, 900], [390, 844]]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }, { name: "prefers-reduced-motion", value: "reduce" }]);
      await page.setViewport({ width, height });
      await open(hash);
      await page.evaluate(axe);
      const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      seen++;
      const where = `${name}, ${scheme}, ${width} px`;
      for (const v of violations) {
        if (v.impact !== "minor") bad++;
        console.log(`${where}: ${v.impact}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 150)).join(" | ")}`);
      }
      if (wide > 0) {
        bad++;
        console.log(`${where}: ${wide} px wider than the screen`);
      }
      if (passes.length === 0) throw new Error(`${where}: axe checked nothing`);
    }
  }
}
if (screenshot) {
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  await page.setViewport({ width: 1280, height: 860 });
  await open("#/cluster");
  await page.screenshot({ path: screenshot });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "dark" }]);
  await page.setViewport({ width: 390, height: 844 });
  await open("#/pending");
  await page.screenshot({ path: screenshot.replace(/\.png$/, "-phone.png") });
}
for (const e of new Set(errors)) console.log(`console: ${e}`);
console.log(`${seen} combinations of view, colors and width: ${bad} findings of axe above minor or of width, ${errors.length} errors of the console`);
await browser.close();
process.exitCode = bad + errors.length > 0 || seen === 0 ? 1 : 0;
