// A browser that tests drive: each line of standard input is a command in JSON, each line of standard output its answer, {} or {"error": ...}.
// CHROMIUM names the browser. Commands:
//   {"open": "http://…/ui/#/cluster"}             a view, from scratch
//   {"size": [390, 844], "scheme": "dark"}        the window, and the colors of the system
//   {"see": ["text", …], "gone": […], "within": 30000}   waits until the page has all texts and none of the others
//   {"click": "Plan"}                             a button, a link or a summary, by its text
//   {"fill": "Name", "text": "default"}           a field, by its label; no text empties it
//   {"press": "Tab", "until": "Plan", "within": 30000}   a key, again and again until what has the focus has the text or label; once without one
//   {"follow": true}                              the address of the view, opened again from scratch
//   {"axe": true}                                 what axe-core finds above "minor", text that is wider than the screen, errors of the console
//   {"screenshot": "file.png", "whole": true}     the window as it is, or the whole page
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import puppeteer from "puppeteer-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium", acceptInsecureCerts: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--lang=en-US"],
});
const page = await browser.newPage();
let errors = [], origin = "";
// A view of what the viewer may not see, or of what is not there, is answered with an error of HTTP.
page.on("console", (m) => m.type() === "error" && !/status of (40[0134]|50[234])/.test(m.text()) && errors.push(m.text()));
page.on("pageerror", (e) => errors.push(String(e.message ?? e)));
page.on("request", (r) => !origin || r.url() === "about:blank" || new URL(r.url()).origin === origin || errors.push(`asked for ${r.url()}`));

/** text returns what the page shows, hidden parts left out. */
const text = () => page.evaluate(() => document.body.innerText.replace(/\s+/g, " "));

async function see({ see = [], gone = [], within = 30000 }) {
  const deadline = Date.now() + within;
  for (;;) {
    const now = (await text()).toLowerCase();
    const missing = see.filter((t) => !now.includes(t.toLowerCase())), there = gone.filter((t) => now.includes(t.toLowerCase()));
    if (missing.length + there.length === 0) return {};
    if (Date.now() > deadline) return { error: `lacks ${JSON.stringify(missing)}, has ${JSON.stringify(there)}: ${(await text()).slice(0, 3000)}` };
    await new Promise((done) => setTimeout(done, 200));
  }
}

async function click(name) {
  const found = await page.evaluateHandle((wanted) => [...document.querySelectorAll("button, a, summary")].find((e) => e.offsetParent && e.textContent.trim() === wanted), name);
  const element = found.asElement();
  if (!element) return { error: `there is nothing to click with the text ${JSON.stringify(name)}: ${(await text()).slice(0, 2000)}` };
  await element.evaluate((e) => e.scrollIntoView({ block: "center" }));
  await element.click();
  return {};
}

async function fill(label, value) {
  const found = await page.evaluateHandle((wanted) => [...document.querySelectorAll("label")].find((l) => l.textContent.trim().startsWith(wanted))?.querySelector("input, textarea, select"), label);
  const element = found.asElement();
  if (!element) return { error: `there is no field with the label ${JSON.stringify(label)}` };
  if (await element.evaluate((e) => e.tagName === "SELECT")) await element.select(value);
  else {
    await element.evaluate((e, v) => {
      Object.getOwnPropertyDescriptor(Object.getPrototypeOf(e), "value").set.call(e, v);
      e.dispatchEvent(new Event("input", { bubbles: true }));
    }, value);
  }
  return {};
}

/** most is how often a key is pressed: more often than a view has places for the focus before what is looked for. */
const most = 60;

async function press(key, until, within) {
  const passed = [], deadline = Date.now() + within;
  for (let i = 0; i < most && Date.now() < deadline; i++) {
    await page.keyboard.press(key);
    if (!until) return {};
    const [text, visible] = await page.evaluate(() => {
      const e = document.activeElement, ring = getComputedStyle(e);
      return [(e.labels?.[0] ?? e).textContent.trim(), e.getClientRects().length > 0 && ring.outlineStyle !== "none" && parseFloat(ring.outlineWidth) > 0];
    });
    passed.push(text);
    if (text.startsWith(until)) return visible ? {} : { error: `${JSON.stringify(until)} has the focus, and nothing shows it` };
  }
  return { error: `${key} does not lead to ${JSON.stringify(until)}, but to ${JSON.stringify(passed)}` };
}

async function check() {
  await page.evaluate(axe);
  const { violations, passes } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  const found = violations.filter((v) => v.impact !== "minor").map((v) => `${v.impact}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 150)).join(" | ")}`);
  if (wide > 0) found.push(`${wide} px wider than the screen`);
  if (passes.length === 0) found.push("axe checked nothing");
  found.push(...new Set(errors));
  errors = [];
  return found.length ? { error: found.join("\n") } : {};
}

async function obey(c) {
  if (c.open) {
    origin = new URL(c.open).origin;
    await page.goto("about:blank");
    await page.goto(c.open, { waitUntil: "load" });
    return {};
  }
  if (c.size) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: c.scheme ?? "light" }, { name: "prefers-reduced-motion", value: "reduce" }]);
    await page.setViewport({ width: c.size[0], height: c.size[1] });
    return {};
  }
  if (c.see || c.gone) return see(c);
  if (c.click) return click(c.click);
  if (c.fill) return fill(c.fill, c.text ?? "");
  if (c.press) return press(c.press, c.until, c.within ?? 30000);
  if (c.follow) return obey({ open: page.url() });
  if (c.axe) return check();
  if (c.screenshot) {
    await page.screenshot({ path: c.screenshot, fullPage: c.whole ?? false });
    return {};
  }
  return { error: `there is no command ${JSON.stringify(c)}` };
}

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await obey(JSON.parse(line)).catch((e) => ({ error: String(e) }));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
