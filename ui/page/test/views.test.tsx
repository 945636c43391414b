// The views of pending pods, of decisions, of a pod and of a node.
import assert from "node:assert/strict";
import { test } from "node:test";
import { render } from "preact-render-to-string";
import type { Class, Consolidation, Decisions, Node } from "../src/api";
import { urlOf } from "../src/api";
import { Distance } from "../src/cluster";
import { Shown, byReason, grouped, said, why } from "../src/decisions";
import { bytes, cores } from "../src/format";
import { NodeFacts, PodsOf } from "../src/node";
import { Pending, textOf } from "../src/pending";
import { gets } from "../src/edits";
import { standingOf, type Edit, type Edits, type Side } from "../src/local";
import { Controls, standing } from "../src/pause";
import { PodFacts, steps } from "../src/pod";
import { BufferFigures } from "../src/buffers";
import { Outcome, change, joined, names } from "../src/whatif";

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
  has(render(<PodFacts now={now} pod={{ ...pod, node: "ip-1", note: "when images were pulled is not known" }} />), "<p>When images were pulled is not known.</p>");
  has(render(<PodFacts now={now} pod={{ ...pod, reasons: [limit], why: "x" }} />), "none is on its way", "limit cpu of 4");
  has(render(<PodFacts now={now} pod={{ ...pod, node: "theirs", timeline: [] }} />), "does not manage", "Nothing is known");
  assert.deepEqual(steps(timeline).map((s) => [s.total, s.step]), [[0, 0], [42, 42]]);
});

test("a node shows its parts of the price, its pods and its timeline", () => {
  const node: Node = {
    nodeClaim: "default-a", node: "ip-1", nodePool: "default", instanceType: "m7g.large", zone: "us-east-1a", capacityType: "spot", usdPerHour: 0.05, cost: { instance: 0.04, volumes: 0.01 },
    cpuRequested: 0.5, pods: 1, state: "terminating", why: "Drifted", launched: true, timeline: [{ at: "2026-01-02T11:00:00Z", what: "planned" }],
  };
  has(render(<NodeFacts now={now} node={node} />), "$0.0500 per hour", "$37 per month", "$0.0100 EBS volumes", "50%", "Drifted", "planned");
  has(render(<PodsOf now={now} sort="" name="ip-1" pods={{ pods: [{ namespace: "a", name: "b", state: "running", milliCPU: 1500, bytes: 1.5 * 2 ** 30 }], more: 3 }} />), "#/pods/a/b", "1500m", "1.5Gi", "3 more pods");
  has(render(<PodsOf now={now} sort="" name="ip-1" pods={{ pods: [] }} />), "no pods");
  assert.deepEqual([cores(2000), bytes(512), bytes(2 ** 20)], ["2", "512B", "1Mi"]);
});

test("decisions are shown with their prices, and what consolidation does next", () => {
  const decisions = { decisions: [
    { at: "2026-01-02T11:59:00Z", what: "launch", nodeClaims: ["default-a"], nodePool: "default", instanceType: "m7g.large", zone: "us-east-1a", capacityType: "spot", usdPerHour: 0.03, why: "for 2 pods" },
    { at: "2026-01-02T11:58:00Z", what: "consolidation", nodeClaims: ["b", "c"], more: 4, savedUSDPerHour: 0.5 },
  ] } as Decisions;
  const consolidation: Consolidation = {
    at: "2026-01-02T11:59:50Z", moves: [{ nodes: ["ip-1"], replacements: ["m7g.large spot"], savedUSDPerHour: 0.1, evictions: 2, begun: false, waits: "the budget of NodePool default" }],
    stays: [{ node: "ip-2", why: "pod shop/web-1 has do-not-disrupt" }],
  };
  const at = new Date("2026-01-02T12:00:00Z");
  const html = render(<Shown decisions={decisions} consolidation={consolidation} now={at} sort="" />);
  for (const part of ["default-a", "m7g.large us-east-1a spot", "$0.0300", "for 2 pods", "and 4 more", "$0.5000", "replaced by m7g.large spot, 2 evictions; waits: the budget of NodePool default", "pod shop/web-1 has do-not-disrupt"]) {
    assert.ok(html.includes(part), `${part} is missing in ${html}`);
  }
  assert.equal(said({ nodes: ["a"], savedUSDPerHour: 1, evictions: 1, begun: true }), "their pods fit elsewhere, 1 eviction; has begun");
  assert.ok(render(<Shown decisions={{ decisions: [] }} now={at} sort="" />).includes("Nothing was decided."));
  assert.deepEqual(byReason([{ node: "a", why: "empty" }, { node: "b", why: "dear" }, { node: "c", why: "dear" }]), [{ why: "dear", nodes: ["b", "c"] }, { why: "empty", nodes: ["a"] }]);
  has(render(<Shown decisions={{ decisions: [] }} consolidation={{ moves: [], stays: [], standby: true }} now={at} sort="" />), "does not lead");
});

const raise: Edit = { object: "NodePool default", field: "spec.limits.cpu", text: "Raise limit cpu of NodePool default from 4 to 10.", nodes: 3, instanceType: "c6g.large", zone: "us-east-1a", capacityType: "spot", usdPerHour: 0.21 };
const edits: Edits = { classes: [{ namespace: "shop", owner: "ReplicaSet web-1", pods: ["web-1-a"], count: 5, edits: [raise, { ...raise, text: "Add a toleration.", nodes: 0 }] }], held: [], placed: [], at: "2026-01-02T11:59:50Z", refusals: true, notes: [] };

test("a class of pending pods has the smallest edit that helps, with its price", () => {
  const pods = { pods: counts, pending: [row] }, query = new URLSearchParams();
  has(render(<Pending now={now} query={query} pods={pods} edits={{ value: edits }} />), "Smallest edit that helps", "from 4 to 10.", "3 new nodes, such as c6g.large spot in us-east-1a: $0.2100/h more.", "1 other edit", "then fit nodes that exist");
  has(render(<Pending now={now} query={query} pods={pods} edits={{}} />), "The planner looks for one");
  has(render(<Pending now={now} query={query} pods={pods} edits={{ value: { ...edits, classes: [{ ...edits.classes[0]!, edits: [] }] } }} />), "No single edit");
  assert.ok(!render(<Pending now={now} query={query} pods={pods} edits={{ absent: true, error: "404" }} />).includes("Smallest edit"));
  has(render(<PodFacts now={now} edits={{ value: edits }} pod={{ namespace: "shop", name: "web-1-a", phase: "Pending", reasons: [limit], timeline: [] }} />), "from 4 to 10.");
  assert.equal(standingOf(edits, "shop", "ReplicaSet web-1", "web-1-z").unplaced?.count, 5);
  assert.deepEqual(standingOf(edits, "shop", "ReplicaSet other", "web-1-z"), {});
  assert.equal(gets({ ...raise, nodes: 1 }), "A node is launched, c6g.large spot in us-east-1a: $0.2100/h more.");
  assert.deepEqual([urlOf("nodes"), urlOf("local/v1/edits")], ["../api/v1/nodes", "../local/v1/edits"]);
});

test("pods without an edit have the reason: what the plan did with them", () => {
  const pods = { pods: counts, pending: [row] }, query = new URLSearchParams();
  const group = { namespace: "shop", owner: "ReplicaSet web-1", pods: ["web-1-a"], count: 1 };
  const shown = (change: Partial<Edits>) => render(<Pending now={now} query={query} pods={pods} edits={{ value: { ...edits, classes: [], ...change } }} />);
  has(shown({ classes: [{ ...edits.classes[0]!, edits: [], unsearched: true }] }), "Not looked for", "slipway explain pod shop/web-1-a");
  has(shown({ classes: [{ ...edits.classes[0]!, edits: [], incomplete: true }] }), "None was found in time.");
  has(shown({ held: [{ ...group, reason: "held by the scheduling gate a/b" }] }), "Not planned. Held by the scheduling gate a/b.");
  has(shown({ held: [{ ...group, pods: ["web-1-b"], reason: "no" }], placed: [group] }), "the pods have a place.");
  const at = new Date(edits.at).toTimeString().slice(0, 8);
  const placed = shown({ placed: [group] });
  has(placed, `Planned on this machine at ${at}, the pods have a place.`);
  assert.ok(!placed.includes("EC2 refuses"), placed);
  has(shown({ placed: [group], refusals: false }), "What EC2 refuses is not known there.");
  const newer = shown({ placed: [{ ...group, pods: ["web-1-0"] }] });
  has(newer, `Not planned yet: the cluster was read at ${at}.`);
  assert.ok(!newer.includes("a place"), newer);
  has(shown({ more: 3 }), "Not listed");
});

test("what if shows both plans", () => {
  const before: Side = { usdPerHour: 1, nodes: 2, launched: [], launchedCount: 0, placedOnExisting: 0, unschedulable: [], unschedulableCount: 0 };
  const after: Side = {
    usdPerHour: 1.5, nodes: 3, launched: [{ name: "default-1", nodePool: "default", instanceType: "m7g.large", zone: "us-east-1a", capacityType: "spot", price: 0.5, pods: ["a/b"] }], launchedCount: 1, placedOnExisting: 2,
    unschedulable: [{ pods: ["a/c", "a/d", "a/e", "a/f"], count: 9, reasons: [{ nodePool: "default", code: "LimitExceeded", reason: "limit cpu of 4 reached" }] }], unschedulableCount: 9,
  };
  has(render(<Outcome of={{ before, after, removed: ["ip-1"], problems: ["NodePool x: spec.y: unknown field"], notes: ["prices: built-in"] }} />),
    "$1.5000", "+$0.5000", "default-1", "m7g.large spot in us-east-1a", "Removed: ip-1.", "2 pods would be placed", "and 6 more", "NodePool default: limit cpu of 4 reached", "unknown field", "built-in");
  has(render(<Outcome of={{ before: { ...before, unpriced: 1 }, after, removed: [], problems: [], notes: [] }} />), "Not counted: 1 node without a known price.");
  assert.deepEqual([change(1, 1), change(1, 0.5), joined("", "a"), joined("a\n", "b"), names(" a, b c ")], ["the same", "−$0.5000", "a", "a\n---\nb", ["a", "b", "c"]]);
});

test("what buffers would have done is asked for, and shown by size", () => {
  const none = () => {};
  has(render(<BufferFigures want={none} />), "What would a buffer have done?");
  const answers = [{ nodePool: "web", nodes: 2, arrivals: 4, had: 3, savedPodSeconds: 1350.4, standbySavedPodSeconds: 210, usdPerDay: 4.8, standbyUSDPerDay: 0.24 }];
  has(render(<BufferFigures want={none} report={{ value: { since: "2026-01-01T12:00:00Z", until: "2026-01-02T12:00:00Z", answers } }} />),
    "2 nodes", "3 of 4 nodes", "$4.80", "1,350", "$0.24", "210", "the last 1d");
  has(render(<BufferFigures want={none} report={{ value: { since: "2026-01-02T12:00:00Z", until: "2026-01-02T12:00:00Z", answers: [] } }} />), "No node was launched");
  const without = render(<BufferFigures want={none} report={{ value: { since: "2026-01-02T12:00:00Z", until: "2026-01-02T12:00:00Z", answers: [], noRecord: true } }} />);
  has(without, "record of decisions was not found");
  assert.ok(!without.includes("No node was launched"), without);
  assert.equal(render(<BufferFigures want={none} report={{ absent: true }} />), "");
});

test("the cluster shows how far its cost is from the lower bound", () => {
  has(render(<Distance bound={{ value: { usdPerHour: 1.2, plannedUSDPerHour: 1.1, lowerBoundUSDPerHour: 1, unplaced: 2, notes: [] } }} />), "$1.0000 per hour", "20% more", "$1.1000", "2 pods would have no node");
  has(render(<Distance want={() => {}} />), "Compute the lower bound");
  const without = render(<Distance bound={{ value: { usdPerHour: 1.2, unpriced: 3, plannedUSDPerHour: 1.1, lowerBoundUSDPerHour: 1, notes: [] } }} />);
  has(without, "20% more", "Not counted: 3 nodes without a known price.");
  has(render(<Distance bound={{ value: { usdPerHour: 0, unpriced: 1, plannedUSDPerHour: 0, lowerBoundUSDPerHour: 0, notes: [] } }} />), "is not known. Not counted: 1 node without");
  const below = render(<Distance bound={{ value: { usdPerHour: 1.9, plannedUSDPerHour: 2, lowerBoundUSDPerHour: 2, notes: [] } }} />);
  assert.ok(below.includes("The nodes cost $1.9000.") && !below.includes("more"), below);
  const least = render(<Distance bound={{ value: { usdPerHour: 1, plannedUSDPerHour: 1, lowerBoundUSDPerHour: 1, notes: [] } }} />);
  has(least, "$1.0000 per hour", "The nodes cost just that.");
  assert.ok(!least.includes("more") && !least.includes("from scratch"), least);
  assert.equal(render(<Distance bound={{ absent: true }} want={() => {}} />), "");
});

test("disruption is paused and resumed after a confirmation, where the viewer may", () => {
  const a = { name: "a", paused: false }, b = { name: "b", paused: true }, none = () => {};
  const half = render(<Controls of={{ nodePools: [a, b], mayChange: true }} ask={none} change={none} />);
  has(half, "paused for 1 of 2 NodePools: b.", "Pause all disruption…", "Resume all disruption…");
  assert.ok(!half.includes("Cancel"));
  has(render(<Controls of={{ nodePools: [a, b], mayChange: true }} asking={true} ask={none} change={none} />), "No node will be consolidated", "Pause 2 NodePools", "Cancel");
  has(render(<Controls of={{ nodePools: [b], mayChange: true }} asking={false} ask={none} change={none} />), "disrupted again", "Resume 1 NodePool");
  const stranger = render(<Controls of={{ nodePools: [a], mayChange: false }} asking={true} ask={none} change={none} />);
  has(stranger, "You may not patch NodePools");
  assert.ok(!stranger.includes("<button"));
  assert.deepEqual([standing({ nodePools: [a], mayChange: true }), standing({ nodePools: [b], mayChange: true })], ["Nodes are disrupted as the budgets of their NodePools allow.", "Disruption is paused for NodePool b, the only one."]);
});

test("what is launched for many pods at once is a few rows", () => {
  const launch = (name: string, at: string, more: Partial<Decisions["decisions"][number]> = {}) => ({ at: `2026-01-02T11:${at}Z`, what: "launch", nodeClaims: [name], nodePool: "default", instanceType: "m7g.large", zone: "us-east-1a", capacityType: "spot", usdPerHour: 0.5, why: "for 1 pod", ...more });
  const rows = grouped([launch("e", "59:30"), launch("x", "59:29", { zone: "us-east-1b" }), launch("d", "59:20"), launch("c", "59:10", { nodeClaims: ["c", "b"], more: 4 }), launch("a", "50:00"),
    launch("f", "49:00", { what: "consolidation", savedUSDPerHour: 1 }), launch("g", "49:00", { what: "consolidation", savedUSDPerHour: 1 })]);
  assert.deepEqual(rows.map((r) => [r.nodeClaims.join(""), r.more, r.usdPerHour]), [["edcb", 4, 1.5], ["x", undefined, 0.5], ["a", undefined, 0.5], ["f", undefined, 0.5], ["g", undefined, 0.5]]);
  has(render(<Shown now={now} sort="" decisions={{ decisions: [launch("e", "59:30"), launch("d", "59:20"), launch("c", "59:10"), launch("b", "59:00")] }} />), "4 × m7g.large us-east-1a spot", "$2.0000", "for 1 pod each", "<summary>1 more");
  assert.deepEqual([why(launch("a", "50:00")), why(launch("a", "50:00", { why: undefined })), why(launch("a", "50:00", { what: "termination", nodeClaims: ["a", "b"], why: "Drifted" }))], ["for 1 pod", "", "Drifted"]);
});

test("a price that the planner does not know is no figure of the bound", () => {
  const html = render(<Distance bound={{ value: { usdPerHour: 0, plannedUSDPerHour: 1.1, lowerBoundUSDPerHour: 1, notes: [] } }} />);
  has(html, "$1.0000 per hour");
  assert.ok(!html.includes("more</strong>"), html);
});
