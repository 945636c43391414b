// The view of pending pods: one row for each class, with the reasons of each NodePool.
import { useEffect, useState } from "preact/hooks";
import { useAnswer, type Answer, type Class, type Pods, type Reason } from "./api";
import { Helps } from "./edits";
import { count } from "./format";
import type { Edits } from "./local";
import { Problem, Since, Table, useNow, type Column } from "./parts";
import { link, replace, type Route } from "./route";

/** textOf returns a reason in words, with the NodePools that have it. Pure. */
export function textOf(r: Reason): string {
  const text = r.message || r.code || "no reason is known";
  const pools = r.nodePools ?? [];
  return pools.length ? `NodePool${pools.length > 1 ? "s" : ""} ${pools.join(", ")}: ${text}` : text;
}

/** Why shows the first reason as a sentence, and all of them, by NodePool, where there are more. */
export function Why({ why, reasons }: { why?: string; reasons?: Reason[] }) {
  const [first, ...others] = reasons ?? [];
  if (!first) return <>{why || "The scheduler has not planned them yet."}</>;
  const more = others.length > 0 || (why && !why.includes(first.message ?? ""));
  return (
    <>
      <span>{textOf(first)}</span>
      {(more || why) && (
        <details>
          <summary>{others.length ? `${count(others.length, "other reason")} and the whole message` : "The whole message"}</summary>
          {others.length > 0 && <ul>{others.map((r) => <li key={textOf(r)}>{textOf(r)}</li>)}</ul>}
          <p class="quiet">{why}</p>
        </details>
      )}
    </>
  );
}

export function columns(now: Date, edits?: Answer<Edits>): Column<Class>[] {
  const all: Column<Class>[] = [
    { key: "owner", title: "Owner", value: (c) => `${c.namespace}/${c.owner}`, cell: (c) => <><span class="quiet">{c.namespace}</span> {c.owner}</> },
    { key: "count", title: "Pods", number: true, value: (c) => c.count, cell: (c) => <a href={link("pods", [c.namespace, c.pod])} title={`for example ${c.pod}`}>{c.count}</a> },
    { key: "since", title: "Since", number: true, value: (c) => (c.since ? Date.parse(c.since) : undefined), cell: (c) => <Since at={c.since} now={now} /> },
    { key: "why", title: "Why", cell: (c) => <Why why={c.why} reasons={c.reasons} /> },
  ];
  if (edits && !edits.absent) all.push({ key: "edit", title: "Smallest edit that helps", cell: (c) => <Helps edits={edits} namespace={c.namespace} owner={c.owner} pod={c.pod} now={now} /> });
  return all;
}

export function PendingView({ route }: { route: Route }) {
  const namespace = route.query.get("namespace") ?? "";
  const pods = useAnswer<Pods>(namespace ? `pods?namespace=${encodeURIComponent(namespace)}` : "pods");
  const edits = useAnswer<Edits>(pods.value?.pending?.length ? "local/v1/edits" : "");
  const now = useNow();
  return (
    <>
      <h1 tabIndex={-1}>Pending pods</h1>
      <Namespace value={namespace} />
      <Problem answer={pods} what="Pods" />
      {pods.value && <Pending pods={pods.value} edits={edits} now={now} query={route.query} />}
      {!pods.value && !pods.error && <p role="status">Asking the launcher…</p>}
    </>
  );
}

/** Namespace takes the namespace of the pods: a viewer may have the right to list those of one alone. */
function Namespace({ value }: { value: string }) {
  const [text, set] = useState(value);
  useEffect(() => set(value), [value]); // Another link to this view, and the browser's way back.
  return (
    <form class="controls" onSubmit={(e) => { e.preventDefault(); location.hash = link("pending", [], { namespace: text.trim() }); }}>
      <label>Namespace <input value={text} onInput={(e) => set(e.currentTarget.value)} placeholder="all" autocomplete="off" spellcheck={false} /></label>
      <button>Show</button>
    </form>
  );
}

/** Pending shows an answer. Pure. */
export function Pending({ pods, edits, now, query }: { pods: Pods; edits?: Answer<Edits>; now: Date; query: URLSearchParams }) {
  const sort = query.get("sort") ?? "", rows = pods.pending ?? [];
  const p = pods.pods;
  return (
    <>
      <p>{p.pending ? `${count(p.pending, "pending pod")}.` : "No pod is pending."}{p.promised > 0 && ` ${count(p.promised, "other pod")} ${p.promised === 1 ? "has its" : "have their"} place on a node that boots.`}</p>
      {rows.length > 0 && (
        <Table caption="Pending pods by owner and reason" rows={rows} columns={columns(now, edits)} id={(c) => `${c.namespace}/${c.owner}/${c.pod}`} by={sort}
          sort={(s) => replace(link("pending", [], { namespace: query.get("namespace") ?? "", sort: s }))} />
      )}
      {(pods.more ?? 0) > 0 && <p>{count(pods.more!, "more row")} not listed: name a namespace.</p>}
    </>
  );
}
