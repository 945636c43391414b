// Package relations says where pods may go because of other pods: topology spread, affinity, anti-affinity and co-location, given what is
// there. It is a pure function over plain data and knows nothing of money: neither instance types nor prices.
//
// The model is that of the scheduler's plugins PodTopologySpread and InterPodAffinity, over classes of pods in place of single ones. A Rule is
// one constraint of a class, its owner. Its Term says which pods it counts, and by which node label; the values of the label are the
// domains. A rule keeps how many matching pods, and how many pods of its owner, each domain has:
//
//   - Spread with maxSkew s permits a pod in domain d if, with it, count(d) - min over all domains of count <= s. Which nodes make domains
//     is said by the inclusion policies (KEP-3094), fewer domains than minDomains make the minimum 0 (KEP-3022), and matchLabelKeys narrow
//     the selector (KEP-3243). Over hosts, the minimum is 0 as long as a new, empty node can be launched.
//   - Affinity permits a domain with a matching pod, and any domain to a pod that matches itself where no pod matches yet. Pods count only if
//     they match all terms of the owner at once, as the scheduler counts them.
//   - AntiAffinity permits a domain without a matching pod, and works both ways: pods that match may not go where the owner's pods are.
//     matchLabelKeys and mismatchLabelKeys narrow the selector (KEP-3633).
//
// The steps of a plan:
//
//  1. New reads the constraints (compile.go, term.go) and counts the pods that exist. Pods of equal namespace and labels are one group, and
//     each term is asked once per group (peers.go). Rules that count the same pods share their counts. What anti-affinity of pods that
//     exist forbids is Blocked.
//  2. The caller adds what can be launched: the domains that new nodes open, affinity that daemon pods meet, spreads over hosts for which no
//     new node can be launched (rule.go).
//  3. Index lists for each class the rules that concern it, alike ones as one (index.go, concern.go).
//  4. Permits asks about one place, BestDomain about a list of them (permits.go); Record counts pods that are placed, Settle finds rules that
//     are broken once pods are taken away again (record.go).
//
// Within a node, counts are the packing's business: NodeRules has the rules by hostname as limits of one node (noderules.go), and Groups the
// classes that have to share a node (groups.go). Other questions about which pods depend on each other are in dependence.go.
//
// A spread is judged as the scheduler judges the owner's own pods. In addition, pods of lower priority may not upset the spread of more
// important ones (Outranks), and BestDomain avoids domains in which a pod upsets the spread of others: the scheduler would not place those
// there again. No loop is longer than rules x domains, or than rules x classes; a fixed point over rules (Groups) adds a class in each round.
package relations
