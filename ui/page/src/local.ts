// What the command slipway ui itself answers, below /local/v1/: what needs the planner. The launcher serves none of it.

export type Edit = {
  object: string; field: string; text: string; nodes: number; nodePool?: string; instanceType?: string; zone?: string; capacityType?: string; usdPerHour: number;
};
export type Unplaced = { namespace: string; owner: string; pods: string[]; count: number; edits: Edit[]; incomplete?: boolean; unsearched?: boolean };
export type Group = { namespace: string; owner: string; pods: string[]; count: number; reason?: string };
export type Edits = { classes: Unplaced[]; held: Group[]; placed: Group[]; more?: number; at: string; refusals: boolean; notes: string[] };
export type Bound = { usdPerHour: number; unpriced?: number; plannedUSDPerHour: number; lowerBoundUSDPerHour: number; unplaced?: number; notes: string[] };
export type Reason = { nodePool: string; code: string; reason: string };
export type NewNode = { name: string; nodePool: string; instanceType: string; zone: string; capacityType: string; price: number; pods: string[] };
export type Side = {
  usdPerHour: number; unpriced?: number; nodes: number; launched: NewNode[]; launchedCount: number; placedOnExisting: number;
  unschedulable: { pods: string[]; count: number; reasons: Reason[] }[]; unschedulableCount: number;
};
export type WhatIf = { before: Side; after: Side; removed: string[]; problems: string[]; notes: string[] };

export type BufferAnswer = {
  nodePool: string; nodes: number; arrivals: number; had: number; savedPodSeconds: number; standbySavedPodSeconds: number; usdPerDay: number; standbyUSDPerDay: number;
};
export type BufferReport = { since: string; until: string; answers: BufferAnswer[]; noRecord?: boolean };

export type Disruption = { nodePools: { name: string; paused: boolean }[]; mayChange: boolean };

/** Standing is what the plan did with pods: one of the three, or none for pods that it does not have. */
export type Standing = { unplaced?: Unplaced; held?: Group; placed?: Group };

/** standingOf returns what the plan did with a pod, or with its owner's pods where the answer does not name them all. Pure. */
export function standingOf(edits: Edits, namespace: string, owner: string, pod: string): Standing {
  const named = (g: Group) => g.namespace === namespace && g.pods.includes(pod);
  const owned = (g: Group) => g.namespace === namespace && g.owner === owner && g.count > g.pods.length;
  for (const matches of [named, owned]) {
    const unplaced = edits.classes.find(matches), held = edits.held.find(matches), placed = edits.placed.find(matches);
    if (unplaced) return { unplaced };
    if (held) return { held };
    if (placed) return { placed };
  }
  return {};
}
