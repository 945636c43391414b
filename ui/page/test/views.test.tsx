// The views of pending pods, of a pod and of a node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { render } from "preact-render-to-string";
import type { Class, Node } from "../src/api";
import { bytes, cores } from "../src/format";
import { NodeFacts, PodsOf } from "../src/node";
import { Pending, textOf } from "../src/pending";
import { PodFacts, steps } from "../src/pod";

const now = new Date("2026-01-02T12:00:00Z");
const counts = { pending: 5, promised: 1, bound: 0, running: 0 };
const limit = { nodePools: ["default", "arm"], code: "LimitReached", message: "limit cpu of 4 reached" };
const taint = { nodePools: ["gpu"], code: "TaintNotTolerated", message: "does not tolerate the pool's taint gpu" };
const row: Class = { namespace: "shop", owner: "ReplicaSet web-1", pod: "web-1-a", count: 5, since: "2026-01-02T11:59:00Z", why: "0/3 nodes. No node can be launched", reasons: [limit, taint] };

function has(html: string, ...parts: string[]) {
  for (const part of parts) assert.ok(html.includes(part), `${part} is missing in ${html}`);
}

test("a reason names its NodePools", () => {
  assert.equal(textOf(limit), "NodePools default, arm: limit cpu of 4 reached");
  assert.equal(textOf({ code: "NotReady" }), "NotReady");
  assert.equal(textOf({}), "no reason is known");
});

test("a class of pending pods has its first reason as a sentence, and the others behind it", () => {
  const html = render(<Pending now={now} query={new URLSearchParams()} pods={{ pods: counts, pending: [row], more: 2 }} />);
  has(html, "5 pending pods", "1 other pod has its place", "ReplicaSet web-1", "1m<", "NodePools default, arm: limit cpu of 4 reached", "1 other reason", "NodePool gpu: does not", "0/3 nodes.", "#/pods/shop/web-1-a", "2 more rows");
});

test("a class that was not planned yet says so", () => {
  has(render(<Pending now={now} query={new URLSearchParams()} pods={{ pods: counts, pending: [{ ...row, why: undefined, reasons: undefined }] }} />), "has not planned them yet");
  assert.ok(!render(<Pending now={now} query={new URLSearchParams()} pods={{ pods: { ...counts, pending: 0 } }} />).includes("<table"));
});

test("a pod shows where it is, or why it has no node", () => {
  const timeline = [{ at: "2026-01-02T11:00:00Z", what: "created" }, { at: "2026-01-02T11:00:42Z", what: "bound", detail: "ip-1" }];
  const pod = { namespace: "shop", name: "web", phase: "Running", timeline };
  has(render(<PodFacts now={now} pod={{ ...pod, node: "ip-1", nodeClaim: "default-a" }} />), "#/nodes/default-a", "ip-1", "+42s", "created");
  has(render(<PodFacts now={now} pod={{ ...pod, nodeClaim: "default-a" }} />), "promised a place on");
  has(render(<PodFacts now={now} pod={{ ...pod, reasons: [limit], why: "x" }} />), "none is on its way", "limit cpu of 4");
  has(render(<PodFacts now={now} pod={{ ...pod, node: "theirs", timeline: [] }} />), "does not manage", "Nothing is known");
  assert.deepEqual(steps(timeline).map((s) => [s.total, s.step]), [[0, 0], [42, 42]]);
});

test("a node shows its parts of the price, its pods and its timeline", () => {
  const node: Node = {
    nodeClaim: "default-a", node: "ip-1", nodePool: "default", instanceType: "m7g.large", zone: "us-east-1a", capacityType: "spot", usdPerHour: 0.05, cost: { instance: 0.04, volumes: 0.01 },
    cpuRequested: 0.5, pods: 1, state: "terminating", why: "Drifted", launched: true, timeline: [{ at: "2026-01-02T11:00:00Z", what: "planned" }],
  };
  has(render(<NodeFacts now={now} node={node} />), "$0.0500 per hour", "$37 per month", "$0.0100 EBS volumes", "50 %", "Drifted", "planned");
  has(render(<PodsOf now={now} sort="" name="ip-1" pods={{ pods: [{ namespace: "a", name: "b", state: "running", milliCPU: 1500, bytes: 1.5 * 2 ** 30 }], more: 3 }} />), "#/pods/a/b", "1500m", "1.5Gi", "3 more pods");
  has(render(<PodsOf now={now} sort="" name="ip-1" pods={{ pods: [] }} />), "no pods");
  assert.deepEqual([cores(2000), bytes(512), bytes(2 ** 20)], ["2", "512B", "1Mi"]);
});
