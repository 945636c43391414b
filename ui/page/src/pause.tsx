// Pausing and resuming the disruption of all nodes, where the viewer's rights allow it.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { post, useAnswer } from "./api";
import { count } from "./format";
import type { Disruption } from "./local";
import { Problem } from "./parts";

/** standing returns which NodePools are paused, as a sentence. Pure. */
export function standing(d: Disruption): string {
  const paused = d.nodePools.filter((p) => p.paused).map((p) => p.name);
  if (paused.length === 0) return "Nodes are disrupted as the budgets of their NodePools allow.";
  if (paused.length === d.nodePools.length) return `Disruption is paused for ${paused.length === 1 ? `NodePool ${paused[0]}, the only one` : `all ${paused.length} NodePools`}.`;
  return `Disruption is paused for ${paused.length} of ${count(d.nodePools.length, "NodePool")}: ${paused.join(", ")}.`;
}

export function Pause() {
  const answer = useAnswer<Disruption>("local/v1/disruption");
  const [asking, ask] = useState<boolean>();
  const [problem, setProblem] = useState("");
  const change = async (paused: boolean) => {
    ask(undefined);
    const got = await post<Disruption>("local/v1/disruption", { paused });
    setProblem(got.error ?? "");
    document.dispatchEvent(new Event("slipway-ask"));
  };
  if (answer.absent || (!answer.value && !answer.error)) return null;
  return (
    <section aria-labelledby="pause">
      <h2 id="pause">Disruption</h2>
      <Problem answer={answer} what="Disruption" />
      {problem && <p class="problem" role="alert">{problem}</p>}
      {answer.value && <Controls of={answer.value} asking={asking} ask={ask} change={change} />}
    </section>
  );
}

/** Confirm asks before something is done. The focus goes to the question as it appears, so that a keyboard and a screen reader go on there; later it would take the focus from a key that was pressed since. */
function Confirm({ text, action, yes, no }: { text: string; action: string; yes: () => void; no: () => void }) {
  const group = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => group.current?.focus(), []);
  return (
    <div class="confirm" role="group" aria-label="Confirm" tabIndex={-1} ref={group}>
      <p>{text}</p>
      <p class="controls"><button type="button" onClick={yes}>{action}</button> <button type="button" onClick={no}>Cancel</button></p>
    </div>
  );
}

/** Controls shows the standing, and what the viewer may do; asking is what they are asked to confirm. Pure. */
export function Controls({ of, asking, ask, change }: { of: Disruption; asking?: boolean; ask: (paused?: boolean) => void; change: (paused: boolean) => void }) {
  const some = of.nodePools.some((p) => p.paused), all = of.nodePools.every((p) => p.paused);
  return (
    <>
      <p role="status">{standing(of)}</p>
      {of.nodePools.length > 0 && !of.mayChange && <p class="quiet">You may not patch NodePools: another user can pause or resume it.</p>}
      {of.mayChange && asking === undefined && (
        <p class="controls">
          {!all && <button type="button" onClick={() => ask(true)}>Pause all disruption…</button>}
          {some && <button type="button" onClick={() => ask(false)}>Resume all disruption…</button>}
        </p>
      )}
      {of.mayChange && asking !== undefined && (
        <Confirm action={`${asking ? "Pause" : "Resume"} ${count(of.nodePools.length, "NodePool")}`} yes={() => change(asking)} no={() => ask(undefined)} text={asking
          ? "No node will be consolidated, removed while empty, or replaced because it drifted. What EC2 interrupts, what expires and what does not work is replaced as before, and a move that has begun ends."
          : "Nodes will be disrupted again as the budgets of their NodePools allow. NodePools that someone else paused are resumed as well."} />
      )}
    </>
  );
}
