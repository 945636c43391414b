// Figures and times as text. All are pure.
import type { Cost, Estimate, NodeRow } from "./api";

/** hoursPerMonth is that of AWS's price pages. */
export const hoursPerMonth = 730;

/** usd returns an amount in USD: four decimals per hour, as slipway status prints it. An amount that is not known is a dash. */
export function usd(amount: number | undefined): string {
  return amount ? `$${amount.toFixed(4)}` : "–";
}

/** perMonth returns an hourly amount as dollars per month. */
export function perMonth(hourly: number): string {
  return `$${Math.round(hourly * hoursPerMonth).toLocaleString("en-US")}`;
}

/** notCounted returns what a price leaves out; empty for nothing. */
export function notCounted(unpriced: number | undefined): string {
  return unpriced ? `Not counted: ${count(unpriced, "node")} without a known price.` : "";
}

/** percent returns a share of 0 to 1; a dash where it is not known. */
export function percent(share: number | undefined | null): string {
  return share === undefined || share === null ? "–" : `${Math.round(share * 100)}%`;
}

/** age returns how long ago a time was, in its two largest units, such as 3m12s or 2d4h. */
export function age(from: string | undefined, now: Date): string {
  const then = from ? Date.parse(from) : NaN;
  if (Number.isNaN(then)) return "–";
  return duration((now.getTime() - then) / 1000);
}

/** duration returns seconds in their two largest units. */
export function duration(seconds: number): string {
  const s = Math.max(0, Math.floor(seconds));
  const units: [number, string][] = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];
  const first = units.findIndex(([size]) => s >= size);
  if (first < 0) return "0s";
  const [size, name] = units[first]!;
  const next = units[first + 1];
  const rest = next ? Math.floor((s % size) / next[0]) : 0;
  return `${Math.floor(s / size)}${name}${next && rest ? `${rest}${next[1]}` : ""}`;
}

/** clock returns the time of day, with the date where it is not today's. */
export function clock(at: string | Date, now: Date): string {
  const t = new Date(at);
  const time = t.toTimeString().slice(0, 8);
  return t.toDateString() === now.toDateString() ? time : `${t.toLocaleDateString("en-CA")} ${time}`;
}

/** count returns a number with its noun. */
export function count(n: number, noun: string): string {
  return `${n.toLocaleString("en-US")} ${noun}${n === 1 ? "" : "s"}`;
}

/** parts returns what a cost is made of, the largest first, without what is nothing in four decimals. */
export function parts(cost: Cost | undefined): { name: string; amount: number }[] {
  if (!cost) return [];
  const all = [
    { name: "instances", amount: cost.instance ?? 0 },
    { name: "EBS volumes", amount: cost.volumes ?? 0 },
    { name: "public IPv4 addresses", amount: cost.publicIPv4 ?? 0 },
    { name: "CPU beyond the baseline", amount: cost.burst ?? 0 },
    { name: "declared by NodePools", amount: cost.declared ?? 0 },
    { name: "expected interruptions", amount: cost.interruptions ?? 0 },
  ];
  return all.filter((p) => p.amount >= 0.00005).sort((a, b) => b.amount - a.amount);
}

/** by returns what launched nodes cost by a property of theirs, the largest first. */
export function by(rows: NodeRow[], property: (n: NodeRow) => string | undefined): { name: string; nodes: number; amount: number }[] {
  const out = new Map<string, { name: string; nodes: number; amount: number }>();
  for (const n of rows) {
    if (!n.launched) continue;
    const name = property(n) || "unknown";
    const sum = out.get(name) ?? { name, nodes: 0, amount: 0 };
    sum.nodes++;
    sum.amount += n.usdPerHour ?? 0;
    out.set(name, sum);
  }
  return [...out.values()].sort((a, b) => b.amount - a.amount || a.name.localeCompare(b.name));
}

/** cores returns thousandths of a CPU as Kubernetes writes them. */
export function cores(milli: number): string {
  return milli % 1000 ? `${milli}m` : `${milli / 1000}`;
}

/** bytes returns an amount of memory in its largest binary unit. */
export function bytes(n: number): string {
  const units = ["B", "Ki", "Mi", "Gi", "Ti"];
  let i = 0;
  while (n >= 1024 && i < units.length - 1) {
    n /= 1024;
    i++;
  }
  return `${Number(n.toFixed(1))}${units[i]}`;
}

/** eta returns when a node will be ready, by how long others took: half of them, and nine of ten. */
export function eta(e: Estimate, now: Date): string {
  const left = (at: string) => (Date.parse(at) - now.getTime()) / 1000;
  const half = left(e.p50), most = left(e.p90);
  if (e.late) return `takes longer than each of ${count(e.boots, "boot")} before`;
  if (most < 1) return "ready any moment";
  return half < 1 ? `ready within ${duration(most)}` : `ready in about ${duration(half)}, 9 of 10 within ${duration(most)}`;
}

/** sentence returns a text that begins without a capital letter as a sentence. Pure. */
export function sentence(text: string): string {
  return text && `${text[0]!.toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;
}
