// The view of one node: what it is and costs, its pods, and what has happened to it.
import { useAnswer, type Node, type NodePods, type PodRow } from "./api";
import { bytes, cores, count, eta, parts, perMonth, usd } from "./format";
import { Bar, Problem, Since, Table, useNow, type Column } from "./parts";
import { Timeline } from "./pod";
import { link, replace, type Route } from "./route";

export function NodeView({ route }: { route: Route }) {
  const name = route.names[0] ?? "";
  const path = `nodes/${encodeURIComponent(name)}`;
  const node = useAnswer<Node>(path);
  const pods = useAnswer<NodePods>(`${path}/pods`);
  const now = useNow();
  return (
    <>
      <h1 tabIndex={-1}>Node {node.value?.node || name}</h1>
      <Problem answer={node} what="The node" />
      {node.value && <NodeFacts node={node.value} now={now} />}
      {!node.value && !node.error && <p role="status">Asking the launcher…</p>}
      {!pods.absent && pods.status !== 401 && <Problem answer={pods} what="Pods" />}
      {pods.value && node.value && <PodsOf pods={pods.value} now={now} sort={route.query.get("sort") ?? ""} name={name} />}
    </>
  );
}

/** NodeFacts shows an answer. Pure. */
export function NodeFacts({ node: n, now }: { node: Node; now: Date }) {
  const cost = parts(n.cost);
  return (
    <>
      <dl class="facts">
        <dt>State</dt><dd><span class={`state ${n.state}`}>{n.state}</span>{n.why ? `: ${n.why}` : ""}{n.ready && <>, {eta(n.ready, now)}<br /><small>by {count(n.ready.boots, "boot")}{n.ready.of ? ` of ${n.ready.of}` : ""}</small></>}</dd>
        <dt>NodeClaim</dt><dd>{n.nodeClaim}</dd>
        {n.nodePool && <><dt>NodePool</dt><dd><a href={link("cluster", [], { filter: n.nodePool })}>{n.nodePool}</a></dd></>}
        {n.instanceType && <><dt>Offering</dt><dd>{n.instanceType}, {n.capacityType} in {n.zone}</dd></>}
        <dt>Price</dt>
        <dd>
          {usd(n.usdPerHour)}{n.usdPerHour ? ` per hour, ${perMonth(n.usdPerHour)} per month${n.launched ? "" : ", once it is launched"}` : ""}{n.coveredBy ? `; paid for by ${n.coveredBy}` : ""}
          {cost.length > 1 && <ul>{cost.map((p) => <li key={p.name}>{usd(p.amount)} {p.name}</li>)}</ul>}
        </dd>
        {n.cpuRequested !== undefined && <><dt>CPU requested</dt><dd><Bar share={n.cpuRequested} /></dd></>}
        {n.memoryRequested !== undefined && <><dt>Memory requested</dt><dd><Bar share={n.memoryRequested} /></dd></>}
        {n.created && <><dt>Age</dt><dd><Since at={n.created} now={now} /></dd></>}
      </dl>
      <Timeline moments={n.timeline} now={now} />
    </>
  );
}

function columns(now: Date): Column<PodRow>[] {
  return [
    { key: "name", title: "Pod", value: (p) => `${p.namespace}/${p.name}`, cell: (p) => <><span class="quiet">{p.namespace}</span> <a href={link("pods", [p.namespace, p.name])}>{p.name}</a></> },
    { key: "state", title: "State", value: (p) => p.state, cell: (p) => p.state },
    { key: "cpu", title: "CPU", number: true, value: (p) => p.milliCPU, cell: (p) => cores(p.milliCPU) },
    { key: "memory", title: "Memory", number: true, value: (p) => p.bytes, cell: (p) => bytes(p.bytes) },
    { key: "age", title: "Age", number: true, value: (p) => (p.created ? -Date.parse(p.created) : undefined), cell: (p) => <Since at={p.created} now={now} /> },
  ];
}

/** PodsOf shows an answer. Pure. */
export function PodsOf({ pods, now, sort, name }: { pods: NodePods; now: Date; sort: string; name: string }) {
  return (
    <section aria-labelledby="pods">
      <h2 id="pods">Pods</h2>
      {pods.pods.length > 0
        ? <Table caption="Pods on the node and those that wait for it" rows={pods.pods} columns={columns(now)} id={(p) => `${p.namespace}/${p.name}`} by={sort} sort={(s) => replace(link("nodes", [name], { sort: s }))} />
        : <p>It has no pods.</p>}
      {(pods.more ?? 0) > 0 && <p>{count(pods.more!, "more pod")} not listed.</p>}
    </section>
  );
}
