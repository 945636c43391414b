// What the command slipway ui itself answers, below /local/v1/: what needs the planner. The launcher serves none of it.

export type Edit = {
  object: string; field: string; text: string; nodes: number; nodePool?: string; instanceType?: string; zone?: string; capacityType?: string; usdPerHour: number;
};
export type Unplaced = { namespace: string; owner: string; pods: string[]; count: number; edits: Edit[]; incomplete?: boolean };
export type Edits = { classes: Unplaced[]; notes: string[] };
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
export type BufferReport = { since: string; until: string; answers: BufferAnswer[] };

export type Disruption = { nodePools: { name: string; paused: boolean }[]; mayChange: boolean };

/** editsOf returns the class of a pod, or of its owner's pods; undefined where the planner would place it. Pure. */
export function editsOf(edits: Edits | undefined, namespace: string, owner: string, pod: string): Unplaced | undefined {
  const here = edits?.classes.filter((c) => c.namespace === namespace) ?? [];
  return here.find((c) => c.pods.includes(pod)) ?? here.find((c) => c.owner === owner && c.count > c.pods.length);
}
