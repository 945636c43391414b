// The view that plans what is not there: other objects, fewer nodes. Nothing in the cluster changes.
import { useEffect, useRef, useState } from "preact/hooks";
import { Buffers } from "./buffers";
import { fetchAnswer, post, type Answer } from "./api";
import { count, notCounted, usd } from "./format";
import type { NewNode, Side, WhatIf } from "./local";
import { Problem, Table, type Column } from "./parts";
import { link, replace, type Route } from "./route";

/** mostLink bounds an address, in characters: browsers and chats cut longer ones. */
const mostLink = 8000;

const buffer = `apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: what-if, namespace: default}
spec:
  provisioningStrategy: buffer.x-k8s.io/active-capacity
  podTemplateRef: {name: what-if}
  replicas: 5
---
apiVersion: v1
kind: PodTemplate
metadata: {name: what-if, namespace: default}
template:
  spec:
    containers:
    - {name: main, image: registry.k8s.io/pause:3.10, resources: {requests: {cpu: "1", memory: 2Gi}}}
`;

const kinds = ["NodePool", "Pod", "Deployment", "StatefulSet", "EC2NodeClass", "CapacityBuffer"];
const cluster = ["NodePool", "EC2NodeClass"];

/** joined adds a document to YAML. Pure. */
export function joined(text: string, more: string): string {
  return text.trim() ? `${text.trimEnd()}\n---\n${more}` : more;
}

/** names returns the names in a text, divided by commas or spaces. Pure. */
export function names(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

export function WhatIfView({ route }: { route: Route }) {
  const linkedObjects = route.query.get("objects") ?? "", linkedRemove = route.query.get("remove") ?? "";
  const [objects, setObjects] = useState(linkedObjects);
  const [remove, setRemove] = useState(linkedRemove);
  const [answer, setAnswer] = useState<Answer<WhatIf>>({});
  const [busy, setBusy] = useState(false);
  const asked = useRef("");
  const address = link("what-if", [], { objects, remove });
  const plan = async (objects: string, remove: string) => {
    asked.current = link("what-if", [], { objects, remove });
    setBusy(true);
    setAnswer(await post<WhatIf>("local/v1/whatif", { objects, remove: names(remove) }));
    setBusy(false);
  };
  // A link brings a question, which is planned at once; so does the browser's way back.
  useEffect(() => {
    if (busy || (!linkedObjects && !linkedRemove) || asked.current === link("what-if", [], { objects: linkedObjects, remove: linkedRemove })) return;
    setObjects(linkedObjects);
    setRemove(linkedRemove);
    void plan(linkedObjects, linkedRemove);
  }, [linkedObjects, linkedRemove]);
  const submit = (e: Event) => {
    e.preventDefault();
    if (busy) return;
    void plan(objects, remove);
    if (address.length <= mostLink) replace(address);
  };
  return (
    <>
      <h1 tabIndex={-1}>What if</h1>
      <p>Plan with other objects or fewer nodes: insert what is there, edit it, and plan. Nothing in the cluster changes.</p>
      <Insert add={(more) => setObjects((text) => joined(text, more))} />
      <form class="whatif" onSubmit={submit}>
        <label>Objects, as YAML: each takes the place of the one of its kind and name, or is added
          <textarea name="objects" rows={14} spellcheck={false} value={objects} onInput={(e) => setObjects(e.currentTarget.value)} />
        </label>
        <label>Nodes to remove, by their names or their NodeClaims' <input name="remove" value={remove} onInput={(e) => setRemove(e.currentTarget.value)} autocomplete="off" spellcheck={false} /></label>
        <p class="controls"><button class="plan" disabled={busy}>Plan</button><span role="status">{busy ? "Planning…" : address.length > mostLink ? "This is too long for a link." : ""}</span></p>
      </form>
      {answer.absent ? <p>Only the command slipway ui answers this: it plans on your machine, with your kubeconfig.</p> : <Problem answer={answer} what="The answer" />}
      {answer.value && <Outcome of={answer.value} />}
      <Buffers />
    </>
  );
}

/** Insert adds what is there, or a buffer, to the objects. */
function Insert({ add }: { add: (yaml: string) => void }) {
  const [problem, setProblem] = useState("");
  const get = async (e: Event) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget as HTMLFormElement);
    const kind = String(form.get("kind")), name = String(form.get("name") ?? "").trim();
    const [first = "", second] = name.split("/");
    const q: Record<string, string> = cluster.includes(kind) ? { kind, name } : { kind, namespace: second === undefined ? "default" : first, name: second ?? first };
    try {
      const got = await fetchAnswer<{ yaml: string }>(`local/v1/object?${new URLSearchParams(q)}`, "", AbortSignal.timeout(60000));
      setProblem(got?.answer.error ?? "");
      if (got?.answer.value) add(got.answer.value.yaml);
    } catch {
      setProblem("The command slipway ui cannot be reached. Does it still run?");
    }
  };
  return (
    <form class="controls" onSubmit={get}>
      <label>Kind <select name="kind">{kinds.map((k) => <option key={k}>{k}</option>)}</select></label>
      <label>Name <input name="name" required placeholder="default, or shop/web" autocomplete="off" spellcheck={false} autocapitalize="off" /></label>
      <button>Insert what is there</button>
      <button type="button" onClick={() => add(buffer)}>Insert a buffer</button>
      <span role="status">{problem}</span>
    </form>
  );
}

const launched: Column<NewNode>[] = [
  { key: "name", title: "Node", keep: true, cell: (n) => n.name },
  { key: "pool", title: "NodePool", cell: (n) => n.nodePool },
  { key: "type", title: "Type", keep: true, cell: (n) => `${n.instanceType} ${n.capacityType} in ${n.zone}` },
  { key: "price", title: "USD/h", number: true, cell: (n) => usd(n.price) },
  { key: "pods", title: "Pods", cell: (n) => (n.pods.length > 5 ? `${n.pods.slice(0, 5).join(", ")} and ${n.pods.length - 5} more` : n.pods.join(", ")) },
];

/** change returns by how much the price changes, with its sign. Pure. */
export function change(before: number, after: number): string {
  const more = after - before;
  return Math.abs(more) < 0.00005 ? "the same" : `${more > 0 ? "+" : "−"}$${Math.abs(more).toFixed(4)}`;
}

function Figures({ title, side }: { title: string; side: Side }) {
  return (
    <div><dt>{title}</dt><dd>{usd(side.usdPerHour)}<small> per hour</small><small class="under">{count(side.nodes, "node")}, {side.launchedCount} of them launched</small><small class="under">{count(side.unschedulableCount, "pod")} without a node</small>{side.unpriced ? <small class="under">{notCounted(side.unpriced)}</small> : null}</dd></div>
  );
}

/** Outcome shows both plans. Pure. */
export function Outcome({ of }: { of: WhatIf }) {
  const { before, after } = of;
  return (
    <section aria-labelledby="outcome">
      <h2 id="outcome">What slipway would do</h2>
      {of.problems.length > 0 && <div class="problem" role="alert"><ul>{of.problems.map((p) => <li key={p}>{p}</li>)}</ul></div>}
      <dl class="cards wide">
        <Figures title="As it is, with what is launched now" side={before} />
        <Figures title="With the change" side={after} />
        <div><dt>Change</dt><dd>{change(before.usdPerHour, after.usdPerHour)}<small> per hour</small></dd></div>
      </dl>
      {of.removed.length > 0 && <p>Removed: {of.removed.join(", ")}.</p>}
      {after.placedOnExisting > 0 && <p>{count(after.placedOnExisting, "pod")} would be placed on nodes that exist or boot.</p>}
      {after.launched.length > 0 && <><h3>Launched</h3><Table caption="Nodes that would be launched with the change" rows={after.launched} columns={launched} id={(n) => n.name} /></>}
      {after.launchedCount > after.launched.length && <p>{count(after.launchedCount - after.launched.length, "more node")} not listed.</p>}
      {after.unschedulable.length > 0 && (
        <>
          <h3>Without a node</h3>
          <ul>
            {after.unschedulable.map((c) => (
              <li key={c.pods[0]}>{c.pods.slice(0, 3).join(", ")}{c.count > 3 ? ` and ${c.count - 3} more` : ""}
                <ul>{c.reasons.map((r) => <li key={r.nodePool + r.reason}>{r.nodePool ? `NodePool ${r.nodePool}: ` : ""}{r.reason || r.code}</li>)}</ul>
              </li>
            ))}
          </ul>
        </>
      )}
      {of.notes.length > 0 && <details><summary>What was assumed</summary><ul>{of.notes.map((n) => <li key={n}>{n}</li>)}</ul></details>}
    </section>
  );
}
