// The view of one pod: why it has no node, or what has happened to it until it ran.
import { useAnswer, type Answer, type Moment, type Pod } from "./api";
import { Helps } from "./edits";
import type { Edits } from "./local";
import { clock, duration, eta, sentence } from "./format";
import { Problem, useNow } from "./parts";
import { Why } from "./pending";
import { link, type Route } from "./route";

export function PodView({ route }: { route: Route }) {
  const [namespace = "", name = ""] = route.names;
  const pod = useAnswer<Pod>(`namespaces/${encodeURIComponent(namespace)}/pods/${encodeURIComponent(name)}`);
  const edits = useAnswer<Edits>(pod.value && !pod.value.node && pod.value.reasons?.length ? "local/v1/edits" : "");
  const now = useNow();
  return (
    <>
      <h1 tabIndex={-1}>Pod {namespace}/{name}</h1>
      <Problem answer={pod} what="The pod" />
      {pod.value && <PodFacts pod={pod.value} edits={edits} now={now} />}
      {!pod.value && !pod.error && <p role="status">Asking the launcher…</p>}
    </>
  );
}

/** PodFacts shows an answer. Pure. */
export function PodFacts({ pod, edits, now }: { pod: Pod; edits?: Answer<Edits>; now: Date }) {
  const claim = pod.nodeClaim;
  return (
    <>
      <dl class="facts">
        <dt>Phase</dt><dd>{pod.phase}</dd>
        <dt>Node</dt><dd>{pod.node ? (claim ? <a href={link("nodes", [claim])}>{pod.node}</a> : <>{pod.node}, which slipway does not manage</>) : claim ? <>promised a place on <a href={link("nodes", [claim])}>{claim}</a>{pod.ready && <>, {eta(pod.ready, now)}</>}</> : "none, and none is on its way"}</dd>
        {!pod.node && (pod.why || pod.reasons?.length) ? <><dt>Why</dt><dd><Why why={pod.why} reasons={pod.reasons} /></dd></> : null}
        {!pod.node && pod.reasons?.length && edits && !edits.absent ? <><dt>Smallest edit that helps</dt><dd><Helps edits={edits} namespace={pod.namespace} owner="" pod={pod.name} now={now} /></dd></> : null}
      </dl>
      <Timeline moments={pod.timeline} now={now} />
      {pod.note && <p>{sentence(pod.note)}</p>}
    </>
  );
}

/** steps returns moments with the seconds since the first and since the one before. Pure. */
export function steps(moments: Moment[]): { moment: Moment; total: number; step: number }[] {
  const at = moments.map((m) => Date.parse(m.at) / 1000);
  return moments.map((moment, i) => ({ moment, total: at[i]! - at[0]!, step: i ? at[i]! - at[i - 1]! : 0 }));
}

/** Timeline shows moments by time, each with how long it took. */
export function Timeline({ moments, now }: { moments: Moment[]; now: Date }) {
  if (moments.length === 0) return <p>Nothing is known to have happened yet.</p>;
  const rows = steps(moments);
  const longest = Math.max(1, ...rows.map((r) => r.step));
  return (
    <section aria-labelledby="timeline">
      <h2 id="timeline">What has happened</h2>
      <table role="table" class="timeline">
        <caption class="hidden">What has happened, by time</caption>
        <thead role="rowgroup"><tr role="row">
          <th role="columnheader" scope="col">What</th><th role="columnheader" scope="col">When</th>
          <th role="columnheader" scope="col" class="number">From the start</th><th role="columnheader" scope="col">Step took</th><th role="columnheader" scope="col">Detail</th>
        </tr></thead>
        <tbody role="rowgroup">
          {rows.map(({ moment: m, total, step }, i) => (
            <tr role="row" key={i}>
              <th role="rowheader" scope="row" data-title="What">{m.what}</th>
              <td role="cell" data-title="When"><time dateTime={m.at}>{clock(m.at, now)}</time></td>
              <td role="cell" data-title="From the start" class="number">{i ? `+${duration(total)}` : ""}</td>
              <td role="cell" data-title="Step took">{i > 0 && <span class="share"><span class="bar" aria-hidden="true"><span class="fill" style={{ width: `${Math.round((step / longest) * 100)}%` }} /></span><span class="figure">{duration(step)}</span></span>}</td>
              <td role="cell" data-title="Detail" class="detail"><div>{m.detail ?? ""}</div></td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
