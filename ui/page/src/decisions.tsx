// The view of decisions: what was done to nodes within the last day, what consolidation does next, and why each other node stays.
import { useAnswer, type Consolidation, type Decision, type Decisions, type Move, type Stay } from "./api";
import { count, usd } from "./format";
import { Pause } from "./pause";
import { Problem, Since, Table, useNow, type Column } from "./parts";
import { link, replace, type Route } from "./route";

function columns(now: Date): Column<Decision>[] {
  return [
    { key: "at", title: "When", keep: true, value: (d) => Date.parse(d.at), cell: (d) => <><Since at={d.at} now={now} /> ago</> },
    { key: "what", title: "What", value: (d) => d.what, cell: (d) => d.what },
    { key: "nodes", title: "NodeClaims", cell: (d) => <Names names={d.nodeClaims} more={d.more ?? 0} /> },
    { key: "pool", title: "NodePool", value: (d) => d.nodePool, cell: (d) => d.nodePool ?? "" },
    { key: "offering", title: "Offering", value: (d) => d.instanceType, cell: (d) => `${d.instanceType && sizeOf(d) > 1 ? `${sizeOf(d)} × ` : ""}${[d.instanceType, d.zone, d.capacityType].filter(Boolean).join(" ")}` },
    { key: "price", title: "Price/h", number: true, value: (d) => d.usdPerHour, cell: (d) => (d.usdPerHour ? usd(d.usdPerHour) : "") },
    { key: "saved", title: "Saved/h", number: true, value: (d) => d.savedUSDPerHour, cell: (d) => (d.savedUSDPerHour ? usd(d.savedUSDPerHour) : "") },
    { key: "why", title: "Why", cell: why },
  ];
}

/** why returns the reason of a decision. That of several launches is the reason of each. Pure. */
export function why(d: Decision): string {
  return d.why ? `${d.why}${d.what === "launch" && sizeOf(d) > 1 ? " each" : ""}` : "";
}

/** sizeOf returns how many NodeClaims a decision is about. */
function sizeOf(d: Decision): number {
  return d.nodeClaims.length + (d.more ?? 0);
}

/** mostNamed is how many NodeClaims a row names before the others are a click away. */
const mostNamed = 3;

function Names({ names, more }: { names: string[]; more: number }) {
  const list = (some: string[]) => some.map((name, i) => <span key={name}>{i > 0 && ", "}<a href={link("nodes", [name])}>{name}</a></span>);
  if (names.length <= mostNamed) return <>{list(names)}{more > 0 && ` and ${more} more`}</>;
  return <>{list(names.slice(0, mostNamed))}<details><summary>{names.length - mostNamed + more} more</summary>{list(names.slice(mostNamed))}{more > 0 && ` and ${more} not listed`}</details></>;
}

/** together is how far apart decisions of one row are at most, in milliseconds. */
const together = 60000;

/** grouped returns decisions, the latest first, those of the same kind, NodePool, offering and reason within a minute as one: what is launched for a large Deployment is a few rows. Pure. */
export function grouped(decisions: Decision[]): Decision[] {
  const out: Decision[] = [], open = new Map<string, number>();
  for (const d of decisions) {
    const key = JSON.stringify([d.what, d.nodePool, d.instanceType, d.zone, d.capacityType, d.why]);
    const at = open.get(key), into = at === undefined ? undefined : out[at];
    // What a move saves is that of all its nodes: it stays a row of its own.
    if (at === undefined || !into || d.savedUSDPerHour || into.savedUSDPerHour || Date.parse(into.at) - Date.parse(d.at) > together) {
      open.set(key, out.push(d) - 1);
      continue;
    }
    const more = (into.more ?? 0) + (d.more ?? 0);
    out[at] = { ...into, nodeClaims: [...into.nodeClaims, ...d.nodeClaims], more: more || undefined, usdPerHour: (into.usdPerHour ?? 0) + (d.usdPerHour ?? 0) || undefined };
  }
  return out;
}

/** said returns what a move does and what it waits for, as a sentence. Pure. */
export function said(m: Move): string {
  const next = m.replacements?.length ? `replaced by ${m.replacements.join(", ")}` : "their pods fit elsewhere";
  const state = m.begun ? "has begun" : m.waits ? `waits: ${m.waits}` : "is next";
  return `${next}, ${count(m.evictions, "eviction")}; ${state}`;
}

const moves: Column<Move>[] = [
  { key: "nodes", title: "Nodes that go", cell: (m) => <Names names={m.nodes} more={0} /> },
  { key: "saved", title: "Saves/h", number: true, cell: (m) => usd(m.savedUSDPerHour) },
  { key: "how", title: "How", cell: said },
];

/** Staying is nodes that stay for the same reason. */
export type Staying = { nodes: string[]; why: string };

/** byReason returns nodes that stay as one row for each reason, the reason of the most nodes first. Pure. */
export function byReason(stays: Stay[]): Staying[] {
  const out = new Map<string, Staying>();
  for (const { node, why } of stays) {
    const row = out.get(why) ?? { nodes: [], why };
    row.nodes.push(node);
    out.set(why, row);
  }
  return [...out.values()].sort((a, b) => b.nodes.length - a.nodes.length);
}

const stays: Column<Staying>[] = [
  { key: "why", title: "Why they stay", cell: (s) => s.why },
  { key: "count", title: "Nodes", number: true, cell: (s) => s.nodes.length },
  { key: "nodes", title: "Which", cell: (s) => <Names names={s.nodes} more={0} /> },
];

export function DecisionsView({ route }: { route: Route }) {
  const decisions = useAnswer<Decisions>("decisions"), consolidation = useAnswer<Consolidation>("consolidation"), now = useNow();
  return (
    <>
      <h1 tabIndex={-1}>Decisions</h1>
      <Pause />
      <Problem answer={decisions} what="Decisions" />
      {decisions.value && <Shown decisions={decisions.value} consolidation={consolidation.value} now={now} sort={route.query.get("sort") ?? ""} />}
      {!decisions.value && !decisions.error && <p role="status">Asking the launcher…</p>}
    </>
  );
}

/** Shown shows both answers; one of consolidation that the viewer may not have is left out. Pure. */
export function Shown({ decisions, consolidation, now, sort }: { decisions: Decisions; consolidation?: Consolidation; now: Date; sort: string }) {
  return (
    <>
      {consolidation?.standby && <p class="quiet">The replica of the launcher that answers does not lead: it does not know what consolidation decides. Another connection may reach the one that leads.</p>}
      {consolidation?.at && (
        <section aria-labelledby="moves">
          <h2 id="moves">Consolidation</h2>
          <p>Decided <Since at={consolidation.at} now={now} /> ago: {consolidation.moves.length ? count(consolidation.moves.length, "move") : "no move"} {consolidation.moves.length > 1 ? "are" : "is"} worth it, {count(consolidation.stays.length, "node")} {consolidation.stays.length === 1 ? "stays" : "stay"}.</p>
          {consolidation.moves.length > 0 && <Table caption="Moves, the best first" rows={consolidation.moves} columns={moves} id={(m) => m.nodes.join(" ")} />}
          {consolidation.stays.length > 0 && (
            <details>
              <summary>Why {count(consolidation.stays.length, "node")} {consolidation.stays.length === 1 ? "stays" : "stay"}</summary>
              <Table caption="Nodes that stay, by reason" rows={byReason(consolidation.stays)} columns={stays} id={(s) => s.why} />
            </details>
          )}
        </section>
      )}
      <section aria-labelledby="day">
        <h2 id="day">The last 24 hours</h2>
        {decisions.decisions.length === 0 ? <p>Nothing was decided.</p> : (
          <Table caption="Decisions of the last 24 hours" rows={grouped(decisions.decisions)} columns={columns(now)} id={(d) => [d.at, d.what, ...d.nodeClaims].join(" ")} by={sort}
            sort={(s) => replace(link("decisions", [], { sort: s }))} />
        )}
      </section>
    </>
  );
}
