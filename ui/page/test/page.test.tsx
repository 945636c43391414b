// The views show what the API answers, and what it does not answer is not shown.
import assert from "node:assert/strict";
import { test } from "node:test";
import { render } from "preact-render-to-string";
import { matches, Cluster } from "../src/cluster";
import { age, by, clock, count, duration, eta, parts, percent, perMonth, usd } from "../src/format";
import { link, parse } from "../src/route";
import { sorted, type Column } from "../src/parts";
import { fetchAnswer, type Faults, type NodeRow, type Nodes } from "../src/api";

const now = new Date("2026-01-02T12:00:00Z");

function node(change: Partial<NodeRow>): NodeRow {
  return {
    nodeClaim: "default-a", node: "ip-1", nodePool: "default", instanceType: "m7g.large", zone: "us-east-1a", capacityType: "spot", usdPerHour: 0.03,
    cpuRequested: 0.94, memoryRequested: 0.5, pods: 3, state: "ready", created: "2026-01-02T11:00:00Z", launched: true, ...change,
  };
}

function nodes(rows: NodeRow[], change: Partial<Nodes> = {}): Nodes {
  return { nodes: rows, launched: rows.filter((n) => n.launched).length, otherNodes: 1, usdPerHour: 0.05, cost: { instance: 0.04, volumes: 0.01 }, spotShare: 0.6, ...change };
}

test("figures and times", () => {
  assert.equal(usd(0.12345), "$0.1235");
  assert.equal(usd(0), "–");
  assert.equal(perMonth(2), "$1,460");
  assert.equal(percent(0.944), "94%");
  assert.equal(percent(undefined), "–");
  assert.equal(percent(0), "0%");
  assert.deepEqual([0, 59, 60, 3723, 90000, -5].map(duration), ["0s", "59s", "1m", "1h2m", "1d1h", "0s"]);
  assert.equal(age("2026-01-02T11:58:30Z", now), "1m30s");
  assert.equal(age(undefined, now), "–");
  assert.match(clock("2025-12-31T11:58:30Z", now), /^2025-12-31 \d\d:\d\d:30$/);
  assert.deepEqual([count(1, "node"), count(2000, "node")], ["1 node", "2,000 nodes"]);
});

test("when a node will be ready", () => {
  const at = (seconds: number) => new Date(now.getTime() + seconds * 1000).toISOString();
  assert.equal(eta({ p50: at(20), p90: at(70), boots: 5 }, now), "ready in about 20s, 9 of 10 within 1m10s");
  assert.equal(eta({ p50: at(-2), p90: at(9), boots: 5 }, now), "ready within 9s");
  assert.equal(eta({ p50: at(-2), p90: at(-1), boots: 5 }, now), "ready any moment");
  assert.equal(eta({ p50: at(-2), p90: at(-1), boots: 1, late: true }, now), "takes longer than each of 1 boot before");
});

test("what EC2 refuses is shown where the launcher answers for it", () => {
  const show = (faults?: Faults) => render(<Cluster now={now} query={new URLSearchParams()} nodes={nodes([node({ state: "booting", ready: { p50: "2026-01-02T12:00:20Z", p90: "2026-01-02T12:00:30Z", boots: 3 } })])} faults={faults} />);
  const html = show({ offerings: [{ code: "InsufficientInstanceCapacity", zone: "us-east-1a", capacityType: "spot", instanceTypes: ["c7g.large", "m7g.large"], more: 3, since: "2026-01-02T11:59:00Z" }], launches: [] });
  for (const part of ["What EC2 refuses now", "InsufficientInstanceCapacity", "us-east-1a, spot", "c7g.large, m7g.large and 3 more", "ready in about 20s"]) assert.ok(html.includes(part), `${part} is missing in ${html}`);
  assert.ok(!show().includes("refuses now") && !show({ offerings: [], launches: [] }).includes("refuses now"));
});

test("amounts add up", () => {
  assert.deepEqual(parts({ instance: 1, volumes: 2, publicIPv4: 0 }).map((p) => p.name), ["EBS volumes", "instances"]);
  const rows = [node({}), node({ zone: "us-east-1b", usdPerHour: 0.1 }), node({}), node({ launched: false, usdPerHour: 9 }), node({ zone: undefined })];
  assert.deepEqual(by(rows, (n) => n.zone).map((r) => [r.name, r.nodes, r.amount]), [["us-east-1b", 1, 0.1], ["us-east-1a", 2, 0.06], ["unknown", 1, 0.03]]);
});

test("an address names its view, and back", () => {
  assert.equal(parse("").view, "cluster");
  assert.deepEqual(parse(link("pods", ["a", "b%/c"])).names, ["a", "b%/c"]);
  assert.equal(parse(link("cluster", [], { filter: "spot & arm", sort: "" })).query.get("filter"), "spot & arm");
  assert.equal(link("cluster", [], { filter: "" }), "#/cluster");
  assert.deepEqual(parse("#/pods/%zz").names, ["%zz"]);
});

test("rows are sorted with what is unknown last", () => {
  const columns: Column<{ n?: number }>[] = [{ key: "n", title: "N", cell: (r) => r.n, value: (r) => r.n }];
  const rows = [{ n: 2 }, {}, { n: 10 }];
  assert.deepEqual(sorted(rows, columns, "n").map((r) => r.n), [2, 10, undefined]);
  assert.deepEqual(sorted(rows, columns, "-n").map((r) => r.n), [10, 2, undefined]);
  assert.equal(sorted(rows, columns, "other"), rows);
});

test("a filter has words", () => {
  assert.ok(matches(node({}), "SPOT us-east-1a"));
  assert.ok(matches(node({}), ""));
  assert.ok(!matches(node({}), "spot on-demand"));
});

test("the cluster shows nodes, the bill and what fails", () => {
  const html = render(<Cluster now={now} query={new URLSearchParams()} pods={{ pods: { pending: 4, promised: 1, bound: 0, running: 3 } }}
    nodes={nodes([node({}), node({ nodeClaim: "default-b", node: undefined, launched: false, state: "recorded", pods: 0, promised: 2, cpuRequested: undefined })], {
      nodePoolsNotReady: [{ nodePool: "gpu", message: "no subnet" }], troubles: [{ waiting: true, reason: "AWSUnavailable", message: "CreateFleet failed", nodeClaims: ["default-b"] }],
    })} />);
  for (const part of ["$0.0500", "60%", "94%", "EBS volumes", "0 + 2 promised", "NodePool gpu is not ready: no subnet", "AWSUnavailable", "href=\"#/pending\"", "href=\"#/nodes/default-b\""]) {
    assert.ok(html.includes(part), `${part} is missing in ${html}`);
  }
});

test("a cluster without nodes says so, and shows no bill", () => {
  const html = render(<Cluster now={now} query={new URLSearchParams()} nodes={nodes([], { usdPerHour: 0, cost: { instance: 0 } })} />);
  assert.ok(html.includes("has launched no node yet") && !html.includes("The bill"));
});

test("the cost says how many nodes it leaves out", () => {
  const html = render(<Cluster now={now} query={new URLSearchParams()} nodes={nodes([node({}), node({ nodeClaim: "default-b", usdPerHour: undefined })], { unpriced: 1 })} />);
  assert.ok(html.includes("$0.0500<small> + 1 node without a known price"), html);
});

test("names of others are text", () => {
  const html = render(<Cluster now={now} query={new URLSearchParams()} nodes={nodes([node({ instanceType: "<img src=x onerror=alert(1)>" })])} />);
  assert.ok(!html.includes("<img") && html.includes("&lt;img"));
});

test("what has not changed is not sent again", async () => {
  const asked: (string | undefined)[] = [];
  const real = globalThis.fetch;
  globalThis.fetch = (async (_: string, options: { headers: Record<string, string> }) => {
    const tag = options.headers["If-None-Match"];
    asked.push(tag);
    return tag === '"a"' ? new Response(null, { status: 304 }) : new Response('{"launched":1}', { headers: { ETag: '"a"' } });
  }) as typeof fetch;
  try {
    const first = await fetchAnswer<Nodes>("nodes", "", new AbortController().signal);
    assert.equal(first?.answer.value?.launched, 1);
    assert.equal(await fetchAnswer<Nodes>("nodes", first!.tag, new AbortController().signal), undefined);
    assert.deepEqual(asked, [undefined, '"a"']);
  } finally {
    globalThis.fetch = real;
  }
});
