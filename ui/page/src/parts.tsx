// What several views are made of.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useToken, type Answer } from "./api";
import { age, clock, percent } from "./format";

/** most is how many rows a table shows before it is asked for more: a browser is slow with thousands. */
const most = 200;

/** Bar shows a share as text and as a bar, which readers of the text need not see. */
export function Bar({ share }: { share: number | undefined }) {
  return (
    <span class="share">
      <span class="bar" aria-hidden="true">
        <span class={share !== undefined && share > 1.005 ? "fill over" : "fill"} style={{ width: `${Math.min(100, Math.round((share ?? 0) * 100))}%` }} />
      </span>
      <span class="figure">{percent(share)}</span>
    </span>
  );
}

/** Since shows how long ago a time was; the time itself is its title. */
export function Since({ at, now }: { at: string | undefined; now: Date }) {
  return at ? <time dateTime={at} title={clock(at, now)}>{age(at, now)}</time> : <>–</>;
}

/** useNow returns the time, each second anew as long as the page is visible. */
export function useNow(): Date {
  const [now, set] = useState(new Date());
  useEffect(() => {
    const timer = setInterval(() => document.hidden || set(new Date()), 1000);
    return () => clearInterval(timer);
  }, []);
  return now;
}

/** Column is one of a table. value sorts its rows; a column without one cannot be sorted by. */
export type Column<T> = {
  key: string;
  title: string;
  cell: (row: T) => ComponentChildren;
  value?: (row: T) => number | string | undefined;
  number?: boolean;
  /** keep keeps a cell in one line on a wide screen. */
  keep?: boolean;
};

/** sorted returns rows in the order of a column; "-KEY" is the opposite order. Rows without a value are last. Pure. */
export function sorted<T>(rows: T[], columns: Column<T>[], by: string): T[] {
  const down = by.startsWith("-");
  const value = columns.find((c) => c.key === by.replace(/^-/, ""))?.value;
  if (!value) return rows;
  return [...rows].sort((a, b) => {
    const x = value(a), y = value(b);
    if (x === undefined || y === undefined) return x === y ? 0 : x === undefined ? 1 : -1;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -order : order;
  });
}

/** Table shows rows with sortable columns; on a narrow screen each row is a block with the columns' titles. */
export function Table<T>(p: { caption: string; rows: T[]; columns: Column<T>[]; id: (row: T) => string; by?: string; sort?: (by: string) => void }) {
  const [shown, show] = useState(most);
  const by = p.by ?? "";
  const rows = sorted(p.rows, p.columns, by);
  return (
    <>
      <div class="scroll"><table role="table">
        <caption class="hidden">{p.caption}</caption>
        <thead role="rowgroup">
          <tr role="row">{p.columns.map((c) => <Head key={c.key} column={c} by={by} sort={p.sort} />)}</tr>
        </thead>
        <tbody role="rowgroup">
          {rows.slice(0, shown).map((row) => (
            <tr role="row" key={p.id(row)}>
              {p.columns.map((c, i) =>
                i === 0
                  ? <th role="rowheader" scope="row" key={c.key} data-title={c.title} class={c.keep ? "keep" : ""}><div>{c.cell(row)}</div></th>
                  : <td role="cell" key={c.key} data-title={c.title} class={c.number ? "number" : c.keep ? "keep" : ""}><div>{c.cell(row)}</div></td>)}
            </tr>
          ))}
        </tbody>
      </table></div>
      {rows.length > shown && <p><button type="button" onClick={() => show(shown + 5 * most)}>Show more of {rows.length.toLocaleString("en-US")}</button></p>}
    </>
  );
}

function Head<T>({ column, by, sort }: { column: Column<T>; by: string; sort?: (by: string) => void }) {
  const up = by === column.key, down = by === `-${column.key}`;
  if (!column.value || !sort) return <th role="columnheader" scope="col" class={column.number ? "number" : ""}>{column.title}</th>;
  return (
    <th role="columnheader" scope="col" aria-sort={up ? "ascending" : down ? "descending" : "none"} class={column.number ? "number" : ""}>
      <button type="button" class="sort" onClick={() => sort(up || (column.number && !down) ? `-${column.key}` : column.key)}>
        {column.title}<span aria-hidden="true">{up ? " ▲" : down ? " ▼" : ""}</span>
      </button>
    </th>
  );
}

/** Problem shows why an answer is not there, or is old. A viewer without an identity is asked for a token. */
export function Problem({ answer, what }: { answer: Answer<unknown>; what: string }) {
  if (!answer.error) return null;
  if (answer.status === 401) return <SignIn />;
  return (
    <p class="problem" role="alert">
      {answer.value !== undefined ? `${what} as of ${answer.at ? clock(answer.at, new Date()) : "before"}. ` : ""}{answer.error}
    </p>
  );
}

/** SignIn asks for a token, which is kept in memory alone. */
function SignIn() {
  const submit = (e: Event) => {
    e.preventDefault();
    useToken(String(new FormData(e.target as HTMLFormElement).get("token") ?? ""));
    document.dispatchEvent(new Event("slipway-ask"));
  };
  return (
    <form class="problem" onSubmit={submit}>
      <p>The launcher does not know who asks. Run <code>slipway ui</code>, which uses your kubeconfig, or paste a token of the cluster.
        The page forgets it when it is closed. A token is printed by: <code>kubectl create token NAME</code></p>
      <label>Token <input name="token" type="password" autocomplete="off" required /></label> <button>Use</button>
    </form>
  );
}
