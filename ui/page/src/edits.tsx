// The smallest edits that help pods without a node, as the planner has checked them.
import type { Answer } from "./api";
import { count, usd } from "./format";
import { editsOf, type Edit, type Edits } from "./local";

/** gets returns what the pods would get by an edit, and for how much. Pure. */
export function gets(e: Edit): string {
  if (e.nodes === 0) return "The pods then fit nodes that exist or boot.";
  const node = `${e.instanceType} ${e.capacityType} in ${e.zone}`;
  return e.nodes === 1 ? `A node is launched, ${node}: ${usd(e.usdPerHour)}/h more.` : `${count(e.nodes, "new node")}, such as ${node}: ${usd(e.usdPerHour)}/h more.`;
}

function One({ edit }: { edit: Edit }) {
  return <>{edit.text} <span class="quiet">{gets(edit)}</span></>;
}

/** Helps shows the edits for pods, the smallest first. */
export function Helps({ edits, namespace, owner, pod }: { edits: Answer<Edits>; namespace: string; owner: string; pod: string }) {
  if (!edits.value) return <span class="quiet">{edits.error ? `Not known: ${edits.error}` : "The planner looks for one…"}</span>;
  const found = editsOf(edits.value, namespace, owner, pod);
  if (!found) return <span class="quiet">Planned on this machine, the pods would have a node: it does not know what EC2 refuses.</span>;
  const [first, ...others] = found.edits;
  if (!first) return <span class="quiet">{found.incomplete ? "None was found in time." : "No single edit that slipway knows of helps."}</span>;
  return (
    <>
      <span><One edit={first} /></span>
      {others.length > 0 && <details><summary>{count(others.length, "other edit")}</summary><ul>{others.map((e) => <li key={e.text}><One edit={e} /></li>)}</ul></details>}
    </>
  );
}
