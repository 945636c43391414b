// The smallest edits that help pods without a node, as the planner has checked them.
import type { Answer } from "./api";
import { clock, count, sentence, usd } from "./format";
import { standingOf, type Edit, type Edits, type Standing } from "./local";

/** gets returns what the pods would get by an edit, and for how much. Pure. */
export function gets(e: Edit): string {
  if (e.nodes === 0) return "The pods then fit nodes that exist or boot.";
  const node = `${e.instanceType} ${e.capacityType} in ${e.zone}`;
  return e.nodes === 1 ? `A node is launched, ${node}: ${usd(e.usdPerHour)}/h more.` : `${count(e.nodes, "new node")}, such as ${node}: ${usd(e.usdPerHour)}/h more.`;
}

function One({ edit }: { edit: Edit }) {
  return <>{edit.text} <span class="quiet">{gets(edit)}</span></>;
}

/** without returns why there is no edit for a pod. Pure. */
export function without(edits: Edits, standing: Standing, pod: string, now: Date): string {
  const { unplaced, held, placed } = standing;
  if (unplaced?.unsearched) return `Not looked for: the page has edits for the largest groups of pods alone. slipway explain pod ${pod} looks for one.`;
  if (unplaced) return unplaced.incomplete ? "None was found in time." : "No single edit that slipway knows of helps.";
  if (held) return `Not planned. ${sentence(held.reason ?? "")}`;
  if (placed) return `Planned on this machine at ${clock(edits.at, now)}, the pods have a place.${edits.refusals ? "" : " What EC2 refuses is not known there."}`;
  if (edits.more) return "Not listed: the answer has the largest groups of pods alone.";
  return `Not planned yet: the cluster was read at ${clock(edits.at, now)}.`;
}

/** Helps shows the edits for pods, the smallest first. */
export function Helps({ edits, namespace, owner, pod, now }: { edits: Answer<Edits>; namespace: string; owner: string; pod: string; now: Date }) {
  if (!edits.value) return <span class="quiet">{edits.error ? `Not known: ${edits.error}` : "The planner looks for one…"}</span>;
  const standing = standingOf(edits.value, namespace, owner, pod);
  const [first, ...others] = standing.unplaced?.edits ?? [];
  if (!first) return <span class="quiet">{without(edits.value, standing, `${namespace}/${pod}`, now)}</span>;
  return (
    <>
      <span><One edit={first} /></span>
      {others.length > 0 && <details><summary>{count(others.length, "other edit")}</summary><ul>{others.map((e) => <li key={e.text}><One edit={e} /></li>)}</ul></details>}
    </>
  );
}
