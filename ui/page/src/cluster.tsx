// The view of the cluster: what it costs, and its nodes.
import { useState } from "preact/hooks";
import { useAnswer, type Answer, type Faults, type NodeRow, type Nodes, type Pods } from "./api";
import { by, clock, count, eta, notCounted, parts, percent, perMonth, usd } from "./format";
import type { Bound } from "./local";
import { Bar, Problem, Since, Table, useNow, type Column } from "./parts";
import { link, replace, type Route } from "./route";

/** matches reports whether a node has all words of a filter in what the table shows of it. Pure. */
export function matches(n: NodeRow, filter: string): boolean {
  const text = [n.node, n.nodeClaim, n.instanceType, n.zone, n.capacityType, n.nodePool, n.state, n.why, n.coveredBy].join(" ").toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

export function columns(now: Date): Column<NodeRow>[] {
  return [
    { key: "name", title: "Node", keep: true, value: (n) => n.node || n.nodeClaim, cell: (n) => <a href={link("nodes", [n.nodeClaim])}>{n.node || n.nodeClaim}</a> },
    { key: "type", title: "Type", keep: true, value: (n) => n.instanceType, cell: (n) => n.instanceType || "–" },
    { key: "zone", title: "Zone", keep: true, value: (n) => n.zone, cell: (n) => n.zone || "–" },
    { key: "capacity", title: "Capacity", value: (n) => n.capacityType, cell: (n) => (n.coveredBy ? `${n.capacityType} (${n.coveredBy})` : n.capacityType || "–") },
    { key: "pool", title: "NodePool", value: (n) => n.nodePool, cell: (n) => n.nodePool || "–" },
    { key: "price", title: "USD/h", number: true, value: (n) => n.usdPerHour, cell: (n) => (n.launched ? usd(n.usdPerHour) : n.usdPerHour ? `(${usd(n.usdPerHour)})` : "–") },
    { key: "cpu", title: "CPU requested", value: (n) => n.cpuRequested, cell: (n) => <Bar share={n.cpuRequested} /> },
    { key: "memory", title: "Memory requested", value: (n) => n.memoryRequested, cell: (n) => <Bar share={n.memoryRequested} /> },
    { key: "pods", title: "Pods", number: true, value: (n) => n.pods + (n.promised ?? 0), cell: (n) => (n.promised ? `${n.pods} + ${n.promised} promised` : n.pods) },
    { key: "state", title: "State", value: (n) => n.state, cell: (n) => <><span class={`state ${n.state}`}>{n.state}{n.why ? `: ${n.why}` : ""}</span>{n.ready && <small> {eta(n.ready, now)}</small>}</> },
    { key: "age", title: "Age", number: true, value: (n) => (n.created ? -Date.parse(n.created) : undefined), cell: (n) => <Since at={n.created} now={now} /> },
  ];
}

export function ClusterView({ route }: { route: Route }) {
  const nodes = useAnswer<Nodes>("nodes");
  const pods = useAnswer<Pods>("pods");
  const faults = useAnswer<Faults>("faults");
  const [wanted, want] = useState(false);
  // All pods are planned for it: a large cluster is asked for it by hand.
  const small = (nodes.value?.launched ?? 0) > 0 && nodes.value!.launched <= mostBounded;
  const bound = useAnswer<Bound>(small || wanted ? "local/v1/bound" : "");
  const now = useNow();
  return (
    <>
      <h1 tabIndex={-1}>Cluster</h1>
      <Problem answer={nodes} what="Nodes" />
      {nodes.value && <Cluster nodes={nodes.value} pods={pods.value} faults={faults.value} bound={small || wanted ? bound : undefined} want={() => want(true)} now={now} query={route.query} />}
      {!nodes.value && !nodes.error && <p role="status">Asking the launcher…</p>}
    </>
  );
}

/** Cluster shows answers. Pure. */
export function Cluster({ nodes, pods, faults, bound, want, now, query }: { nodes: Nodes; pods?: Pods; faults?: Faults; bound?: Answer<Bound>; want?: () => void; now: Date; query: URLSearchParams }) {
  const filter = query.get("filter") ?? "", sort = query.get("sort") ?? "";
  const change = (next: Record<string, string>) => replace(link("cluster", [], { filter, sort, ...next }));
  const shown = nodes.nodes.filter((n) => matches(n, filter));
  return (
    <>
      <Summary nodes={nodes} pods={pods} />
      <Distance bound={bound} want={nodes.launched > 0 ? want : undefined} />
      {(nodes.nodePoolsPaused?.length ?? 0) > 0 && <p class="paused">Disruption is paused for NodePool{nodes.nodePoolsPaused!.length > 1 ? "s" : ""} {nodes.nodePoolsPaused!.join(", ")}. <a href={link("decisions")}>Resume</a></p>}
      <Trouble nodes={nodes} now={now} />
      {faults?.standby && <p class="quiet">The replica of the launcher that answers does not lead: it does not know what EC2 refuses.</p>}
      {(faults?.offerings.length ?? 0) > 0 && <Refusals faults={faults!} now={now} />}
      <Bill nodes={nodes} />
      <section aria-labelledby="nodes">
        <h2 id="nodes">Nodes</h2>
        <p class="controls">
          <label>Filter <input type="search" value={filter} onInput={(e) => change({ filter: e.currentTarget.value })} placeholder="spot us-east-1a" /></label>
          <span role="status">{filter ? `${shown.length} of ${count(nodes.nodes.length, "node")}` : ""}</span>
        </p>
        {shown.length > 0
          ? <Table caption="Nodes that slipway launched or is launching" rows={shown} columns={columns(now)} id={(n) => n.nodeClaim} by={sort} sort={(s) => change({ sort: s })} />
          : <p>{filter ? "No node has all these words." : "Slipway has launched no node yet. It launches some as soon as a pod fits on none."}</p>}
      </section>
    </>
  );
}

function Summary({ nodes, pods }: { nodes: Nodes; pods?: Pods }) {
  const waiting = nodes.nodes.length - nodes.launched;
  const p = pods?.pods;
  return (
    <dl class="cards">
      <div><dt>Cost per hour</dt><dd>{usd(nodes.usdPerHour)}{nodes.unpriced ? <small> + {count(nodes.unpriced, "node")} without a known price</small> : null}</dd></div>
      <div><dt>Cost per month</dt><dd>{nodes.usdPerHour ? perMonth(nodes.usdPerHour) : "–"}</dd></div>
      <div><dt>Spot share</dt><dd>{nodes.usdPerHour ? percent(nodes.spotShare) : "–"}</dd></div>
      <div><dt>Nodes</dt><dd>{nodes.launched}<small>{waiting ? ` + ${waiting} being launched` : ""}{nodes.otherNodes ? ` + ${nodes.otherNodes} not managed` : ""}</small></dd></div>
      {p && <div><dt>Pods running</dt><dd>{p.running}<small>{p.bound ? ` + ${p.bound} starting` : ""}{p.promised ? ` + ${p.promised} promised a node` : ""}</small></dd></div>}
      {p && <div class={p.pending ? "warns" : ""}><dt>Pods pending</dt><dd>{p.pending ? <a href={link("pending")}>{p.pending}</a> : 0}</dd></div>}
    </dl>
  );
}

/** mostBounded is how many nodes a cluster has at most whose lower bound is asked for by itself. */
const mostBounded = 300;

/** Distance shows how far the nodes are from the least that nodes for their pods could cost. Pure. */
export function Distance({ bound, want }: { bound?: Answer<Bound>; want?: () => void }) {
  if (bound?.absent) return null;
  if (!bound) return want ? <p><button type="button" onClick={want}>Compute the lower bound of the cost</button></p> : null;
  const b = bound.value;
  if (!b) return bound.error ? <p class="quiet">The lower bound of the cost is not known: {bound.error}</p> : null;
  const unpriced = notCounted(b.unpriced);
  if (!b.lowerBoundUSDPerHour) return unpriced ? <p class="quiet">The lower bound of the cost is not known. {unpriced}</p> : null;
  const least = b.usdPerHour > 0 && usd(b.usdPerHour) === usd(b.lowerBoundUSDPerHour);
  return (
    <p class="distance">
      At today's prices no set of nodes for the pods that run costs less than <strong>{usd(b.lowerBoundUSDPerHour)} per hour</strong>.{" "}
      {least ? <>The nodes cost just that.</> : b.usdPerHour > 0 && <>The nodes cost {usd(b.usdPerHour)}{b.usdPerHour > b.lowerBoundUSDPerHour && <>, <strong>{percent(b.usdPerHour / b.lowerBoundUSDPerHour - 1)} more</strong></>}.</>}
      {(!b.usdPerHour || b.plannedUSDPerHour < b.usdPerHour - 0.00005) && <>{" "}Planned from scratch, they would cost {usd(b.plannedUSDPerHour)}.</>}
      {b.unplaced ? ` ${count(b.unplaced, "pod")} would have no node then.` : ""}
      {unpriced && ` ${unpriced}`}
    </p>
  );
}

function Trouble({ nodes, now }: { nodes: Nodes; now: Date }) {
  const pools = nodes.nodePoolsNotReady ?? [], troubles = nodes.troubles ?? [];
  if (pools.length + troubles.length === 0) return null;
  return (
    <section aria-labelledby="trouble" class="problem">
      <h2 id="trouble">What fails now</h2>
      <ul>
        {pools.map((p) => <li key={p.nodePool}>NodePool {p.nodePool} is not ready: {p.message}</li>)}
        {troubles.map((t) => (
          <li key={t.reason + t.message}>
            <strong>{t.reason}</strong>: {t.message} ({count(t.nodeClaims?.length ?? 0, "NodeClaim")}{t.last ? <>, last <Since at={t.last} now={now} /> ago</> : null}{t.waiting ? ", tried again" : ", their pods are planned again"})
          </li>
        ))}
      </ul>
    </section>
  );
}

/** mostRefusals is how many rows the cluster's view has of what EC2 refuses. */
const mostRefusals = 10;

function Refusals({ faults, now }: { faults: Faults; now: Date }) {
  const rows = faults.offerings.slice(0, mostRefusals), more = faults.offerings.length - rows.length + (faults.more ?? 0);
  const columns: Column<Faults["offerings"][number]>[] = [
    { key: "code", title: "EC2's error", cell: (f) => f.code || "not known" },
    { key: "where", title: "Where", cell: (f) => `${f.zone}, ${f.capacityType}` },
    { key: "types", title: "Instance types", cell: (f) => `${f.instanceTypes.join(", ")}${f.more ? ` and ${f.more} more` : ""}` },
    { key: "since", title: "Since", number: true, cell: (f) => <Since at={f.since} now={now} /> },
    { key: "until", title: "Tried again", number: true, cell: (f) => (f.until ? <time dateTime={f.until}>{clock(f.until, now)}</time> : "–") },
  ];
  return (
    <section aria-labelledby="refusals">
      <h2 id="refusals">What EC2 refuses now</h2>
      <Table caption="Offerings that EC2 refuses, by error, zone and capacity type" rows={rows} columns={columns} id={(f) => [f.code, f.zone, f.capacityType, f.until, f.instanceTypes[0]].join("/")} />
      {more > 0 && <p>{count(more, "more row")} not listed.</p>}
    </section>
  );
}

function Bill({ nodes }: { nodes: Nodes }) {
  if (!nodes.usdPerHour) return null;
  const cost = parts(nodes.cost);
  const known = cost.reduce((sum, p) => sum + p.amount, 0);
  if (nodes.usdPerHour - known > 0.00005) cost.push({ name: "not known by part", amount: nodes.usdPerHour - known });
  return (
    <section aria-labelledby="bill">
      <h2 id="bill">The bill</h2>
      <div class="columns">
        <Amounts title="By part" rows={cost} all={nodes.usdPerHour} />
        <Amounts title="By capacity" rows={by(nodes.nodes, (n) => n.capacityType)} all={nodes.usdPerHour} filters />
        <Amounts title="By NodePool" rows={by(nodes.nodes, (n) => n.nodePool)} all={nodes.usdPerHour} filters />
        <Amounts title="By zone" rows={by(nodes.nodes, (n) => n.zone)} all={nodes.usdPerHour} filters />
      </div>
    </section>
  );
}

function Amounts({ title, rows, all, filters }: { title: string; rows: { name: string; amount: number; nodes?: number }[]; all: number; filters?: boolean }) {
  const shown = rows.slice(0, 8), rest = rows.slice(8);
  if (rest.length) shown.push({ name: `${rest.length} others`, amount: rest.reduce((sum, r) => sum + r.amount, 0) });
  return (
    <table class="amounts">
      <caption>{title}</caption>
      <tbody>
        {shown.map((r, i) => (
          <tr key={r.name}>
            <th scope="row" title={r.name}>{filters && i < 8 ? <a href={link("cluster", [], { filter: r.name })}>{r.name}</a> : r.name}</th>
            <td class="number">{usd(r.amount)}</td>
            <td><Bar share={r.amount / all} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
