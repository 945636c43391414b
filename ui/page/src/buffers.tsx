// What buffers would have cost and saved in the last day, beside the view that plans one.
import { useState } from "preact/hooks";
import { useAnswer, type Answer } from "./api";
import { count, duration } from "./format";
import type { BufferAnswer, BufferReport } from "./local";
import { Problem, Table, type Column } from "./parts";

/** perDay returns an amount in USD per day. Pure. */
const perDay = (usd: number) => `$${usd.toFixed(2)}`;

const columns: Column<BufferAnswer>[] = [
  { key: "pool", title: "NodePool", cell: (a) => a.nodePool },
  { key: "nodes", title: "Buffer", keep: true, cell: (a) => count(a.nodes, "node") },
  { key: "had", title: "Would have had", keep: true, cell: (a) => `${a.had} of ${count(a.arrivals, "node")}` },
  { key: "price", title: "Awake, per day", number: true, cell: (a) => perDay(a.usdPerDay) },
  { key: "saved", title: "Pod seconds saved", number: true, cell: (a) => Math.round(a.savedPodSeconds).toLocaleString("en-US") },
  { key: "standbyPrice", title: "Standby, per day", number: true, cell: (a) => perDay(a.standbyUSDPerDay) },
  { key: "standbySaved", title: "Pod seconds saved", number: true, cell: (a) => Math.round(a.standbySavedPodSeconds).toLocaleString("en-US") },
];

/** Buffers asks for the report when it is wanted: it reads the record of the last day. */
export function Buffers() {
  const [wanted, want] = useState(false);
  const report = useAnswer<BufferReport>(wanted ? "local/v1/buffers" : "");
  return <BufferFigures report={wanted ? report : undefined} want={() => want(true)} />;
}

/** BufferFigures shows the report, or a button that asks for it. Pure. */
export function BufferFigures({ report, want }: { report?: Answer<BufferReport>; want: () => void }) {
  if (report?.absent) return null;
  if (!report) return <p><button type="button" onClick={want}>What would a buffer have done?</button></p>;
  const r = report.value;
  return (
    <section aria-labelledby="buffers">
      <h2 id="buffers">What a buffer would have done</h2>
      <Problem answer={report} what="The record" />
      {r?.noRecord && <p>The launcher's record of decisions was not found in the namespace that slipway ui's flag --slipway-namespace names.</p>}
      {r && !r.noRecord && r.answers.length === 0 && <p>No node was launched for pods that waited.</p>}
      {r && r.answers.length > 0 && (
        <>
          <p>By the nodes that were launched for pods that waited in the last {duration((Date.parse(r.until) - Date.parse(r.since)) / 1000)}. A node that was taken is there again when the next one has booted.</p>
          <Table caption="What buffers would have cost and saved" rows={r.answers} columns={columns} id={(a) => `${a.nodePool}/${a.nodes}`} />
        </>
      )}
    </section>
  );
}
